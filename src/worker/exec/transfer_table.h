// TransferArray: pieces of shards between devices, workers and memory kinds.
//
//   source entry ready --> host bytes --> cut --(memory | Fabric)--> InboundTransfer --> FromHost --> entry
//                \--(whole shard, same worker)--> Engine copy ---------------------------^
//
// Transfers are posted before their data exists: nothing waits on the intake.
//
// Place:    worker/exec, over store, engine and the PeerRouter.
// Threads:  the intake; messages of peers are posted to it, copies run on `io`.
// Lifetime: Reset ends all that waits here.
// Errors:   a source's error reaches every destination with its first cause; a lost peer is DATA_LOSS.
// Invariants: T-1 a message is matched by (transfer, destination ordinal, piece) alone. T-2 messages that come before
//           their command are kept up to kEarlyBytesMax; beyond that the transfers concerned fail rather than hang, and
//           a peer that goes on with ever other transfers counts as lost.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "worker/engine/engine.h"
#include "worker/exec/inbound_transfer.h"
#include "worker/exec/outbound_transfer.h"
#include "worker/exec/peer_router.h"
#include "worker/exec/work_queue.h"
#include "worker/store/buffer_store.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

class TransferTable : private PeerRouter::Handler {
 public:
  static constexpr size_t kEarlyBytesMax = size_t{256} << 20;
  // Transfers that lost messages of one peer to it: more than a controller has under way.
  static constexpr int64_t kOverflowedMax = 4096;
  using Emit = absl::AnyInvocable<void(WorkerEvent)>;

  struct Parts {
    WorkerId self;
    Engine* engine = nullptr;
    BufferStore* store = nullptr;
    PeerRouter* router = nullptr;
    std::shared_ptr<IntakeQueue> intake;
    std::shared_ptr<WorkQueue> io;
  };
  // `emit` is called on the intake. Takes the router's kTransfer messages.
  TransferTable(Parts parts, Emit emit);
  ~TransferTable() override;

  void Transfer(TransferArray command);
  void Cancel(LaunchId transfer, const absl::Status& cause);
  void CancelSession(SessionId session, const absl::Status& cause);
  void Reset(const absl::Status& cause);
  // Whether TransferTimes are told; until the controller ends.
  void ReportTimes(bool on) { clock_->on.store(on, std::memory_order_relaxed); }
  // Shards that wait for pieces.
  void Describe(WorkerActivity* activity) const;
  // Nothing more comes from `peer`.
  void MarkLost(WorkerId peer, const absl::Status& why);
  // Peers that are to be talked to (again).
  void ForgetLost(WorkerId peer) { lost_.erase(peer); }

 private:
  using InboundPtr = std::shared_ptr<InboundTransfer>;
  struct Early {
    WorkerId from;
    int32_t ordinal;
    uint32_t piece;
    bool is_error;
    DenseBytes bytes;
    // Memory that it takes while it waits, about: an empty one isn't free.
    size_t cost() const { return bytes.bytes.size() + 256; }
  };
  void OnPeerMessage(WorkerId from, const MessageHeader& header, ReceivedBytes bytes) override;
  void OnPeerLost(WorkerId peer, absl::Status why) override;

  absl::Status Check(const TransferArray& command) const;
  std::vector<InboundPtr> Receive(const TransferArray& command);
  void SendFrom(const TransferArray& command, int32_t ordinal, const std::vector<InboundPtr>& inbounds);
  void FailForLost(const std::vector<InboundPtr>& inbounds);
  void TakeEarly(LaunchId transfer);
  void Take(LaunchId transfer, Early message);
  void Keep(LaunchId transfer, Early message);
  void Ended(LaunchId transfer, int32_t ordinal, SessionId session, const absl::Status& status, bool origin);
  void FailWhere(const absl::Status& cause, bool origin, absl::AnyInvocable<bool(const InboundTransfer&)> which);
  void DropEarlyUpTo(LaunchId transfer);
  void DropEarlyOf(WorkerId peer);

  const Parts parts_;
  Emit emit_;
  const std::shared_ptr<TransferClock> clock_ = std::make_shared<TransferClock>();
  uint64_t generation_ = 0;  // of the controller that transfers belong to
  LaunchId newest_;
  absl::flat_hash_map<LaunchId, absl::flat_hash_map<int32_t, InboundPtr>> inbound_;
  absl::flat_hash_set<LaunchId> told_;  // failures already told, of transfers still here
  std::map<LaunchId, std::vector<Early>> early_;
  size_t early_bytes_ = 0;
  std::map<LaunchId, WorkerId> overflowed_;  // lost messages to the bound, first of that peer
  absl::flat_hash_map<WorkerId, absl::Status> lost_;
};

}  // namespace switchtower
