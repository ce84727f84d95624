// One launch on this worker: its ranks here, from intake to the last one's end.
//
//   RankTask:  queued --Start--> running --End--> ended
//                 \--Fail (a rank's error, CancelLaunch, session end)--> ended, results = cause
//
// Place:    worker/exec; made by LaunchTable, run by DeviceQueues.
// Threads:  any. No lock is held while entries are filled or others are called.
// Lifetime: LaunchState and its tasks hold each other until Release; LaunchTable releases after the collectives have
//           heard of the end, so a task's LaunchContext outlives all of its FFI calls.
// Invariants: E-1 the first cause of a launch stays and every unfilled result reads it. E-2 OnLaunchFailed comes at
//           most once, before OnLaunchEnded; OnLaunchEnded exactly once, after all ranks here have ended and their
//           results were filled.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "types/ids.h"
#include "worker/exec/device_clock.h"
#include "worker/exec/launch_context.h"
#include "worker/exec/program_table.h"
#include "worker/store/buffer_entry.h"
#include "worker/store/outcome.h"
#include "worker_api/events.h"

namespace switchtower {

class DeviceQueue;
class LaunchState;

struct RankTask {
  RankTask(std::shared_ptr<LaunchState> launch, int32_t ordinal, LaunchId id, int rank,
           std::shared_ptr<const GangTable> gang, CollectiveEngine* collectives, HostCallTable* host_calls);

  const std::shared_ptr<LaunchState> launch;
  const int32_t ordinal;
  DeviceQueue* queue = nullptr;
  std::shared_ptr<ProgramSlot> program;
  // Of whoever moves the task on: the intake until it is pushed, the device queue until it has ended.
  absl::InlinedVector<BufferEntryPtr, 8> arguments;
  absl::InlinedVector<BufferEntryPtr, 8> results;
  std::vector<bool> may_donate;  // by argument
  // It may take as long as somebody's Python function does, so the device's other launches don't wait behind it: it
  // calls its client, or takes what such a launch gives.
  bool aside = false;
  LaunchContext context;
  const std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
  DeviceClock::Span had_device;  // written before the task ends
  int unfilled = 0;              // inputs that the head waits for; guarded by the queue's mutex

 private:
  friend class LaunchState;
  enum class State { kQueued, kRunning, kEnded };
  State state = State::kQueued;  // guarded by the launch's mutex
};
using RankTaskPtr = std::shared_ptr<RankTask>;

// Who wants to know. Called on any thread, with no lock held.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void OnLaunchFailed(const LaunchState& launch, const absl::Status& cause, bool origin) = 0;
  virtual void OnLaunchEnded(const LaunchState& launch) = 0;
};

class LaunchState : public std::enable_shared_from_this<LaunchState> {
 public:
  LaunchState(LaunchId id, SessionId session, std::shared_ptr<LaunchObserver> observer)
      : id(id), session(session), observer_(std::move(observer)) {}

  const LaunchId id;
  const SessionId session;

  // Intake, before any task is pushed.
  void SetTasks(std::vector<RankTaskPtr> tasks) EXCLUDES(mutex_);

  // A copy, for waiting at the head; false if the task was dropped.
  bool Arguments(const RankTask& task, absl::InlinedVector<BufferEntryPtr, 8>* arguments) const EXCLUDES(mutex_);
  // False if the task was dropped meanwhile.
  bool Start(RankTask& task) EXCLUDES(mutex_);
  bool IsEnded(const RankTask& task) const EXCLUDES(mutex_);
  void End(RankTask& task, absl::Status status) EXCLUDES(mutex_);
  // Drops what hasn't started. What runs is ended by the observer, through the collectives.
  void Fail(absl::Status cause, bool origin) EXCLUDES(mutex_);
  std::optional<absl::Status> cause() const EXCLUDES(mutex_);
  // When its ranks had their devices, once all have ended.
  void AppendTimes(std::vector<LaunchTimes::Span>* spans) const EXCLUDES(mutex_);
  // Lets go of the tasks.
  void Release() EXCLUDES(mutex_);

 private:
  static void Finish(RankTask& task, const absl::Status& status);
  void Close(size_t count) EXCLUDES(mutex_);

  const std::shared_ptr<LaunchObserver> observer_;
  mutable Mutex mutex_;
  std::vector<RankTaskPtr> tasks_ GUARDED_BY(mutex_);
  size_t open_ GUARDED_BY(mutex_) = 0;  // tasks not ended, and calls of Fail at work
  std::optional<absl::Status> cause_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
