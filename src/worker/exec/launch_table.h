// Launches of this worker: from a Launch command to tasks on device queues, and the watermark of what has ended.
//
//   Launch --> entries resolved and promised --> RankTasks --> DeviceQueues --> OnLaunchEnded --> watermark
//
// Place:    worker/exec.
// Threads:  the intake. Ends and failures of launches come on other threads and are posted here.
// Lifetime: outlives nothing: Shutdown cancels everything and the device queues are stopped after it.
// Errors:   a launch that makes no sense here (unknown gang or program, wrong counts) ends at once, its results reading
//           that error, and LaunchFailed says so.
// Invariants: L-1 the watermark only grows. L-2 a failure is told before the watermark passes its launch.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "worker/exec/device_queue.h"
#include "worker/exec/host_call_table.h"
#include "worker/exec/launch_context.h"
#include "worker/exec/launch_state.h"
#include "worker/exec/leftover_launches.h"
#include "worker/exec/program_table.h"
#include "worker/exec/work_queue.h"
#include "worker/store/buffer_store.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

class LaunchTable {
 public:
  using Emit = absl::AnyInvocable<void(WorkerEvent)>;
  struct Parts {
    WorkerId self;
    Engine* engine = nullptr;
    CollectiveEngine* collectives = nullptr;  // may be null: programs without collectives only
    BufferStore* store = nullptr;
    ProgramTable* programs = nullptr;
    std::shared_ptr<IntakeQueue> intake;
    HostCallTable* host_calls = nullptr;
    std::chrono::milliseconds cancel_grace{0};
  };
  // `emit` is called on the intake.
  LaunchTable(Parts parts, Emit emit);
  ~LaunchTable();

  void DefineGang(switchtower::DefineGang command);
  void DropGang(GangId gang) { gangs_.erase(gang); }
  void Launch(switchtower::Launch command);
  void Cancel(LaunchId launch, const absl::Status& cause);
  void CancelSession(SessionId session, const absl::Status& cause);
  // A controller's end: everything is cancelled, gangs are forgotten, and what still runs is no longer told of.
  void Reset(const absl::Status& cause);
  // Whether LaunchTimes are told; until the controller ends.
  void ReportTimes(bool on) { report_times_ = on; }
  // Waits for all devices. Not on the intake, after Reset.
  void StopDevices();

  // OK, or what has been running for longer than `cancel_grace` since its session or controller ended.
  absl::Status CheckLeftovers() const;

  // Devices and collectives.
  void Describe(WorkerActivity* activity) const;

  uint64_t executions() const;
  std::vector<uint64_t> busy_ns() const;  // by ordinal
  size_t running() const { return running_.size(); }

 private:
  class Observer;
  struct Gang {
    std::shared_ptr<const GangTable> table;
    std::vector<int> local_ranks;
  };
  struct Ordered {
    LaunchId id;
    bool awaited = false;
    bool ended = false;
  };

  absl::Status Check(const switchtower::Launch& command, const Gang* gang, const ProgramSlot* program) const;
  void Refuse(const switchtower::Launch& command, const Gang* gang, const absl::Status& why);
  RankTaskPtr MakeTask(const switchtower::Launch& command, const Gang& gang, int rank,
                       const std::shared_ptr<LaunchState>& state, std::shared_ptr<ProgramSlot> program);
  void Abandon(const std::function<bool(const LaunchState&)>& whose, const absl::Status& cause);
  void Ended(LaunchId launch);
  void Advance();

  const Parts parts_;
  Emit emit_;
  std::shared_ptr<Observer> observer_;  // of this generation of launches
  std::vector<std::unique_ptr<DeviceQueue>> devices_;
  absl::flat_hash_map<GangId, Gang> gangs_;
  absl::flat_hash_map<LaunchId, std::shared_ptr<LaunchState>> running_;
  LeftoverLaunches leftovers_;
  std::deque<Ordered> order_;  // launches not yet under the watermark
  LaunchId newest_;
  bool report_times_ = false;
  LaunchTimes times_;  // of launches that have ended, to be told with the next watermark
};

}  // namespace switchtower
