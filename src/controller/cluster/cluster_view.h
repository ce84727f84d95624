// The seats of one lease and the workers on them: connects to those that are in, notices those that are lost,
// and hands on their events.
//
//   lease states (resource manager) --> seats --> links (a channel to one worker incarnation)
//
// Place:    controller/cluster; one for each lease that the proxy holds. Knows commands only to tell workers
//           of their peers.
// Threads:  everything on the home strand; channels and the connector post to it.
// Lifetime: a link lives from OnWorkerIn to OnWorkerLost; records may keep it longer, Send is then a no-op.
// Errors:   a broken connection is a lost worker, whatever becomes of the process. It is tried again a few times:
//           a worker whose connection ended is empty, as a new one is.
// Invariants: C-1 a seat is waiting (never had a worker), up or down. C-2 the loss ledger knows of a loss
//           before the observer does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/cluster/loss_ledger.h"
#include "controller/cluster/place.h"
#include "controller/cluster/poster.h"
#include "controller/cluster/seat_map.h"
#include "controller/cluster/worker_connector.h"
#include "types/device.h"

namespace switchtower {

struct WorkerLink {
  WorkerInfo info;
  int32_t seat = 0;
  std::string name;  // "slice s0 host 1"
  std::unique_ptr<WorkerChannel> channel;
  bool open = true;
  WorkerStats stats;
  uint64_t commands_sent = 0;

  void Send(const std::shared_ptr<const SharedCommand>& command,
            WorkerChannel::When when = WorkerChannel::When::kSoon) {
    if (!open) return;
    ++commands_sent;
    channel->Send(command, when);
  }
  void Send(WorkerCommand command) { Send(std::make_shared<const SharedCommand>(std::move(command))); }
};
using WorkerLinkPtr = std::shared_ptr<WorkerLink>;

// What a client waits for is written at once to a few workers; to many, the home's strand would be held up for too
// long.
inline WorkerChannel::When WhenAwaited(size_t workers) {
  return workers <= 8 ? WorkerChannel::When::kNow : WorkerChannel::When::kSoon;
}

class ClusterView {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnWorkerIn(const WorkerLinkPtr& link) = 0;
    // `cause` is the DATA_LOSS that everything on the worker now is.
    virtual void OnWorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) = 0;
    virtual void OnEvent(const WorkerLinkPtr& link, WorkerEvent event) = 0;
    // A seat that never had a worker was given up: what waits for it must be looked at again.
    virtual void OnSeatDown() = 0;
  };
  enum class SeatState { kWaiting, kUp, kDown };

  // `unreachable` tells the resource manager of a worker that doesn't answer.
  ClusterView(WorkerConnector& connector, std::function<void(WorkerId)> unreachable, std::shared_ptr<Poster> poster,
              std::shared_ptr<LossLedger> losses, Observer& observer);
  ~ClusterView();

  void OnLease(SeatedLease lease);
  // Closes all channels; no more events.
  void Close();

  SeatState state(int32_t seat) const;
  // The link of a seat that is up; null otherwise. Holds until who sits there changes.
  const WorkerLinkPtr& link(int32_t seat) const;
  // Only for seats that are up.
  PhysicalDevice Where(const Place& place) const;
  std::string SeatName(int32_t seat) const;
  // Grows with each change of who sits where.
  uint64_t binding_version() const { return binding_version_; }
  // S-3: under which the present holder numbers its launches.
  uint64_t home_epoch() const { return lease_.home_epoch; }
  std::vector<WorkerLinkPtr> links() const;
  // Before a command by which workers speak to each other: tells all workers of their peers, if they changed. Once for
  // all that came in since: a table for each of them would be the cube of their number.
  void TellPeers();
  // Also if they didn't change: a worker that lost the connection to another one tries it anew once that is named again.
  void TellPeersAgain();
  int32_t seats() const { return static_cast<int32_t>(seats_.size()); }

 private:
  struct Seat {
    std::string name;
    WorkerLinkPtr link;
    bool occupied_once = false;
    bool down = false;
    WorkerInfo expected;  // as the lease says; id 0: nobody
    WorkerId refused;     // an incarnation that was lost or couldn't be reached
    bool connecting = false;
    int attempts = 0;  // connections to `expected` since it last ended a launch
  };
  void UpdateSeat(int32_t index, const std::string& name, const WorkerInfo* worker);
  void Connect(int32_t index);
  void Connected(int32_t index, WorkerId worker, absl::StatusOr<std::unique_ptr<WorkerChannel>> channel);
  void Admit(int32_t index, std::unique_ptr<WorkerChannel> channel);
  void Lose(int32_t index, const std::string& cause);
  void Reconnect(int32_t index, WorkerId worker);

  WorkerConnector& connector_;
  const std::function<void(WorkerId)> unreachable_;
  const std::shared_ptr<Poster> poster_;
  const std::shared_ptr<LossLedger> losses_;
  Observer& observer_;
  LeaseState lease_;
  std::vector<Seat> seats_;
  uint64_t binding_version_ = 0;
  bool peers_changed_ = false;
  bool closed_ = false;
};

}  // namespace switchtower
