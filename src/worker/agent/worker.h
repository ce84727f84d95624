// A worker: takes commands of one controller, in order, and makes the engine do them.
//
//   ControllerPort --commands--> intake --> LaunchTable, HostPuts, ShardReader, TransferTable --> engine
//                 <--events-----
//
// Place:    worker/agent, over exec and store. Knows no sockets: WorkerServer attaches what has said hello.
// Threads:  Attach, PublishStats, CheckLeftovers, Stop from any thread. All tables belong to the intake.
// Lifetime: engine, router and collectives outlive it. Stop ends everything that runs and is called by the destructor.
//           A program that never ends makes Stop wait: the process ends it then.
// Invariants: W-1 one controller at a time; with its end, however it comes, its sessions' launches are cancelled and
//           their buffers, programs and gangs freed. W-2 commands take effect in the order in which they came.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "types/ids.h"
#include "worker/engine/engine.h"
#include "worker/exec/launch_context.h"
#include "worker/exec/peer_router.h"
#include "worker/exec/work_queue.h"
#include "worker_api/port.h"

namespace switchtower {

class Worker {
 public:
  struct Parts {
    WorkerId self;
    Engine* engine = nullptr;
    PeerRouter* router = nullptr;
    CollectiveEngine* collectives = nullptr;  // null: no program has collectives
    // S-6: a launch may go on for so long after the end of its session; then `on_stuck` hears why this process should
    // end. Null: nobody cares.
    std::chrono::milliseconds cancel_grace{10'000};
    std::function<void(const absl::Status&)> on_stuck;
  };
  explicit Worker(Parts parts);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Opens the data plane (PeerRouter::Start). Before the first Attach; collectives have set their handler.
  void Start();
  // Ends everything, and the data plane with it. Idempotent.
  void Stop();

  // The controller at `port` takes over; what an earlier one had here ends.
  void Attach(std::shared_ptr<ControllerPort> port);
  // Sends WorkerStats if they changed since the last time.
  void PublishStats();
  // Calls on_stuck, on the intake, if a launch is.
  void CheckLeftovers();
  // Runs when all that was posted before it was taken in.
  void WhenTakenIn(Task task) { intake_->Post(std::move(task)); }

 private:
  class Core;
  const Parts parts_;
  const std::shared_ptr<IntakeQueue> intake_;
  const std::shared_ptr<WorkQueue> io_;
  const std::shared_ptr<WorkQueue> loaders_;
  const std::shared_ptr<WorkQueue> resume_;
  std::unique_ptr<Core> core_;
  std::atomic<bool> stopped_{false};
};

}  // namespace switchtower
