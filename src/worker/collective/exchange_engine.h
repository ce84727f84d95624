// Collectives of programs whose ranks are spread over workers, behind the FFI calls of their executions.
//
//   FFI handler --Join--> members meet in memory --one message per process and phase--> Fabric --> peers
//        ^----------- done(status) once all of the group is here <-- OnPeerMessage <--- Fabric <---/
//
// Place:    worker/collective; implements the CollectiveEngine of exec. Above transport.
// Threads:  any method from any thread; none of them blocks. One mutex, held for table look-ups alone: messages are
//           packed, sent and combined, and `done` is called, without it.
// Lifetime: the fabric outlives the engine, but is stopped before the engine ends.
// Errors:   a collective ends with the first cause its launch has: of a CancelLaunch; DataLoss naming worker and
//           operation if a peer is lost; InvalidArgument if ranks disagree; ResourceExhausted if peers' messages
//           outgrow early_bytes_max.
// Invariants: E-1 matching is by (launch, op id, iteration, group) and never by the order of arrival (S-2). E-2 bits
//           don't depend on placement (S-8, A-1). E-3 each `done` is called exactly once, and not before the engine has
//           stopped reading and writing that call's buffers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "base/strand.h"
#include "transport/fabric.h"
#include "worker/collective/exchange.h"
#include "worker/collective/look_budget.h"
#include "worker/collective/member_call.h"
#include "worker/exec/launch_context.h"
#include "worker/exec/peer_router.h"

namespace switchtower {

class ExchangeEngine final : public CollectiveEngine, public PeerRouter::Handler {
 public:
  struct Options {
    int64_t user_data_type = 0;                // of RegisterCollectives
    int threads = 4;                           // a few more than devices here: programs go on on them
    size_t early_bytes_max = size_t{1} << 30;  // for each launch; four times as much for all
  };
  ExchangeEngine(Fabric& fabric, const Options& options);
  ~ExchangeEngine() override;

  // A rank of this worker comes to a collective.
  void Join(MemberCall call) EXCLUDES(mutex_);
  absl::StatusOr<std::shared_ptr<const GroupPlan>> Plan(const std::shared_ptr<const GangTable>& gang,
                                                        absl::Span<const int64_t> ranks) {
    return plans_.Get(gang, ranks);
  }
  Fabric& fabric() { return fabric_; }
  LookBudget& look_budget() { return look_budget_; }
  // Fabric::WaitFast on a program's thread, which computes what the messages complete.
  bool AwaitMessages(absl::FunctionRef<bool()> done, int looks, std::chrono::steady_clock::time_point end);
  // Runs `task`, which may take long (it goes on with a program), on the engine's pool; on this thread, once it is done
  // with the exchange in hand, if it is one of the pool's.
  void Resume(Task task);
  // Ends what is pending and refuses what comes.
  void Stop() EXCLUDES(mutex_);

  uint64_t stale_messages() const { return stale_messages_.load(std::memory_order_relaxed); }

  int64_t user_data_type() const override { return options_.user_data_type; }
  void LaunchBegins(LaunchId launch, std::shared_ptr<const GangTable> gang) override EXCLUDES(mutex_);
  void CancelLaunch(LaunchId launch, absl::Status cause) override EXCLUDES(mutex_);
  void LaunchEnded(LaunchId launch) override EXCLUDES(mutex_);
  void ForgetLost(WorkerId peer) override EXCLUDES(mutex_);
  CollectiveStats stats() const override;
  std::vector<PendingCollective> Pending() const override EXCLUDES(mutex_);

  void OnPeerMessage(WorkerId from, const MessageHeader& header, ReceivedBytes bytes) override EXCLUDES(mutex_);
  void OnPeerLost(WorkerId peer, absl::Status why) override EXCLUDES(mutex_);

 private:
  // Whose thread it is: a program's or the pool's may compute for long, others (the fabric's) may not.
  enum class On { kWorker, kElsewhere };
  enum class Step { kWait, kSend, kApply, kEnd };
  // A peer of which nothing more comes: for all launches, or, once it is named again, for those up to a certain one,
  // which may miss what was on its way.
  struct Lost {
    absl::Status why;
    std::optional<LaunchId> last;
  };
  // What a failed launch leaves behind: to be ended without the lock.
  struct Failed {
    std::vector<ExchangePtr> exchanges;
    std::vector<std::pair<MemberCall, absl::Status>> calls;  // that a fault point held back
    bool empty() const { return exchanges.empty() && calls.empty(); }
  };

  std::shared_ptr<ExchangeLaunch> LaunchOfMessage(LaunchId id) REQUIRES(mutex_);
  ExchangePtr& FindExchange(const std::shared_ptr<ExchangeLaunch>& launch, const ExchangeKey& key, CollectiveKind kind)
      REQUIRES(mutex_);
  absl::Status JoinExchange(MemberCall& call, uint64_t fingerprint, ExchangePtr& exchange, Failed& failed)
      REQUIRES(mutex_);
  // Takes a message whose members haven't come; ResourceExhausted if there are too many.
  absl::Status Hold(Exchange& exchange, Exchange::EarlyMessage message) REQUIRES(mutex_);
  void Forget(ExchangeLaunch& launch) REQUIRES(mutex_);
  // OK, or the loss of a peer that the exchange needs.
  absl::Status CheckPeers(const Exchange& exchange) const REQUIRES(mutex_);
  // Drops the losses that concern no launch any more.
  void ForgetOldLosses() REQUIRES(mutex_);
  // Sets the cause if there is none, and appends what it ends to `failed`: EndAll unlocked.
  void Fail(ExchangeLaunch& launch, absl::Status cause, Failed& failed) REQUIRES(mutex_);
  void EndAll(Failed failed) EXCLUDES(mutex_);

  // Runs the steps that can run.
  void Advance(const ExchangePtr& exchange, On on) EXCLUDES(mutex_);
  Step NextStep(Exchange& exchange) REQUIRES(mutex_);
  void Send(const ExchangePtr& exchange, int phase) EXCLUDES(mutex_);
  absl::Status SendTo(const ExchangePtr& exchange, int phase, int to, const PieceList& pieces) EXCLUDES(mutex_);
  void OnSent(const Exchange::SendSlot& slot, const absl::Status& status) EXCLUDES(mutex_);
  // False: the step goes on elsewhere, which will Advance.
  bool Apply(const ExchangePtr& exchange, On on) EXCLUDES(mutex_);
  // A part on a thread of the pool, and all that follows from it.
  void RunPart(const ExchangePtr& exchange, int part) EXCLUDES(mutex_);
  // True for the last part.
  bool ApplyPart(const ExchangePtr& exchange, int part) EXCLUDES(mutex_);
  void Complete(const ExchangePtr& exchange) EXCLUDES(mutex_);

  Fabric& fabric_;
  const Options options_;
  PlanCache plans_;
  LookBudget look_budget_;

  mutable Mutex mutex_;
  absl::flat_hash_map<LaunchId, std::shared_ptr<ExchangeLaunch>> launches_ GUARDED_BY(mutex_);
  LaunchId newest_begun_ GUARDED_BY(mutex_);
  int not_begun_ GUARDED_BY(mutex_) = 0;      // launches of which only messages are here
  size_t held_bytes_ GUARDED_BY(mutex_) = 0;  // of all launches
  absl::flat_hash_map<WorkerId, Lost> lost_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;

  std::atomic<uint64_t> operations_{0};
  std::atomic<uint64_t> bytes_in_memory_{0};
  std::atomic<uint64_t> stale_messages_{0};

  ThreadPool pool_;  // last: its tasks use the rest
};

}  // namespace switchtower
