// Launches that were sent and haven't ended on all of their workers, and transfers that may still be waiting.
//
// Place:    controller/schedule.
// Threads:  the home strand.
// Invariants: I-1 each launch ends exactly once: when every worker's watermark has passed it or the worker is
//           lost. I-2 the first failure of a launch is told to its other workers, once.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "controller/api/snapshot.h"
#include "controller/schedule/admission_ledger.h"
#include "controller/schedule/gang_table.h"
#include "controller/schedule/launch_forecast.h"
#include "controller/schedule/ops.h"

namespace switchtower {

struct LaunchRecord {
  SessionId session;
  uint64_t number = 0;  // among its session's
  uint64_t user_context = 0;
  PlacedProgramPtr program;
  GangPtr gang;
  int remaining = 0;   // workers that haven't ended it
  absl::Status error;  // first cause
  Callback<absl::Status> on_status;
  std::shared_ptr<const SharedCommand> command;  // holds the Launch
  std::chrono::steady_clock::time_point sent;
  std::string call_site;  // in the client, if it tells
  AdmissionLedger::Token temporaries;
  LaunchForecast::Expectation expected;
  std::vector<Place> done_at;        // devices that told their time of it
  std::vector<RequestId> questions;  // that its end answers (RequestTable)

  const Launch& launch() const { return std::get<Launch>(command->command()); }
};

class InFlightTable {
 public:
  using OnEnd = std::function<void(LaunchId, LaunchRecord)>;
  explicit InFlightTable(OnEnd on_end) : on_end_(std::move(on_end)) {}

  void Add(LaunchId id, LaunchRecord record);
  // A transfer is remembered until its destination is deleted: its end isn't reported.
  void AddTransfer(LaunchId id, ArrayKey destination, std::vector<WorkerLinkPtr> links);
  void DropTransfer(ArrayKey destination) { transfers_.erase(destination); }

  // True if launches have ended by it, on all of their workers.
  bool Completed(const WorkerLinkPtr& link, LaunchId watermark);
  bool Contains(LaunchId id) const { return launches_.count(id) > 0; }
  // Null if it isn't (or no longer) in flight.
  LaunchRecord* Find(LaunchId id);
  const LaunchRecord* Find(LaunchId id) const;
  // The same, if its workers tell its end at once, and nothing that was sent before it can hold that up.
  LaunchRecord* FindPrompt(LaunchId id);
  // The worker will soon have something to tell: the end of the newest launch that it was sent.
  bool TellsSoon(const WorkerLink& link) const;
  // Tells all workers of the launch but `except`. The first cause stays.
  void Fail(LaunchId id, const WorkerLink* except, const absl::Status& cause);
  // Tells all workers of the transfer, if `reporter` is one.
  void FailTransfer(LaunchId id, const WorkerLink& reporter, const absl::Status& cause);
  void WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause);
  // Cancels its launches, and tells their ends now: workers may take long to end them, or never do.
  void FailSession(SessionId session, const absl::Status& cause);

  // The oldest kSnapshotLaunchesMax.
  std::vector<LaunchSnapshot> Describe(std::chrono::steady_clock::time_point now) const;

  bool empty() const { return launches_.empty(); }
  size_t size() const { return launches_.size(); }
  LaunchId oldest() const { return launches_.begin()->first; }

 private:
  struct Transfer {
    LaunchId id;
    std::vector<WorkerLinkPtr> links;
  };
  // Launches on one worker, in the order sent. A record stays where it is until no queue names it.
  struct Lane {
    WorkerLinkPtr link;
    std::deque<std::pair<LaunchId, LaunchRecord*>> open;
  };
  Lane* LaneOf(const WorkerLink& link);
  const Lane* LaneOf(const WorkerLink& link) const;
  // True if it was the last worker of the launch.
  bool EndedOn(LaunchId id, LaunchRecord& record);
  bool IsOpenOn(const WorkerLink& link, LaunchId id) const;
  static void Cancel(LaunchId id, const std::vector<WorkerLinkPtr>& links, const WorkerLink* except,
                     const absl::Status& cause);

  const OnEnd on_end_;
  std::map<LaunchId, LaunchRecord> launches_;
  std::vector<Lane> lanes_;  // by seat
  absl::flat_hash_map<ArrayKey, std::vector<Transfer>> transfers_;
};

}  // namespace switchtower
