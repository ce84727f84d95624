// One device: a FIFO of launches and the one thread that starts them.
//
//   Push --> queue --(head: program loaded, inputs filled, room in flight)--> Engine::Execute --> done
//
// Execute may block as long as the program runs (XLA's CPU programs run inside it), hence a thread for each device; and
// it returns at once on others, hence a bound on how far ahead the calls run. A task that may wait for its client
// (RankTask::aside) waits for its inputs and runs on a thread of its own, so that those behind it go on.
//
// Place:    worker/exec, over engine and store.
// Threads:  Push, Poke from any thread. Dispatch on its own.
// Lifetime: Stop waits for everything in flight, so cancel first. The queue outlives the launches pushed to it.
// Errors:   of a launch: its results and LaunchState::End get them, with the first cause.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "worker/engine/engine.h"
#include "worker/exec/device_clock.h"
#include "worker/exec/launch_state.h"
#include "worker_api/worker_activity.h"

namespace switchtower {

class DeviceQueue {
 public:
  static constexpr int kInFlightMax = 32;
  static constexpr int kAsideMax = 256;

  DeviceQueue(Engine& engine, CollectiveEngine* collectives, int32_t ordinal);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  void Push(RankTaskPtr task);
  // The head may have been dropped: looks again.
  void Poke();
  void Stop();

  uint64_t busy_ns() const { return shared_->clock.busy_ns(); }
  // What it is at. Any thread; never waits for the device.
  WorkerActivity::Device Activity() const;

  uint64_t executions() const { return executions_.load(std::memory_order_relaxed); }

 private:
  // A task that left the queue.
  struct Taken {
    RankTaskPtr task;
    bool running = false;
    int64_t since_ns = 0;  // by DeviceClock: it runs, or has had to wait; 0: it didn't have to
  };
  // Outlives the queue in callbacks.
  struct Shared {
    Mutex mutex;
    CondVar wake;
    std::deque<RankTaskPtr> tasks GUARDED_BY(mutex);
    std::vector<Taken> taken GUARDED_BY(mutex);  // not ended yet, in the order of the queue
    int in_flight GUARDED_BY(mutex) = 0;
    int aside GUARDED_BY(mutex) = 0;  // threads, and executions that these began
    uint64_t pokes GUARDED_BY(mutex) = 0;
    bool stopping GUARDED_BY(mutex) = false;
    DeviceClock clock;

    Taken* Find(const RankTask* task) REQUIRES(mutex);
    void Forget(const RankTask* task) REQUIRES(mutex);
  };

  struct Ending;

  void Run();
  RankTaskPtr Next();
  void RunAside(RankTaskPtr task);
  // False if it was dropped while it waited.
  bool WaitForInputs(const RankTaskPtr& task);
  bool InputsCome(const RankTaskPtr& task);
  void Execute(const RankTaskPtr& task);
  static void FillResults(const RankTask& task, std::vector<EngineBufferPtr> outputs);
  static absl::Status Gather(const RankTask& task, EngineExecution& execution);
  // An execution failed: if an argument's producer failed, that is the cause.
  static void Blame(RankTaskPtr task, size_t argument, absl::Status status);

  Engine& engine_;
  CollectiveEngine* const collectives_;
  const int32_t ordinal_;
  const std::shared_ptr<Shared> shared_;
  std::atomic<uint64_t> executions_{0};
  std::thread thread_;
};

}  // namespace switchtower
