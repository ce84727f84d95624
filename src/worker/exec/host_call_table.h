// Calls of running programs to functions in their clients' processes: out to the controller, and the answers back.
//
//   FFI handler --Begin--> pending --HostCall event--> controller --> client
//                            |  <--ReturnHostCall--
//                            '-- done: resumes the program on a thread of `resume`
//
// Place:    worker/exec; worker/callback has the handler that XLA calls.
// Threads:  any. `done` runs on `resume`, or on the caller's thread once that was stopped.
// Lifetime: outlives the executions. The buffers that a call writes are the program's: valid until `done`.
// Errors:   `done` gets the client's error, or why the launch was cancelled.
// Invariants: H-1 each call ends exactly once: by its answer or with its launch. H-2 nothing is written to a call's
//           buffers after its end. H-3 no number of a call is used twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "worker/exec/work_queue.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

class HostCallTable {
 public:
  // `emit` sends an event to the controller, from any thread.
  HostCallTable(std::function<void(WorkerEvent)> emit, std::shared_ptr<WorkQueue> resume)
      : emit_(std::move(emit)), resume_(std::move(resume)) {}

  // `outputs[i]` takes the bytes of `call.results[i]`. Numbers the call.
  void Begin(HostCall call, std::vector<char*> outputs, absl::AnyInvocable<void(absl::Status)> done) EXCLUDES(mutex_);
  void Return(ReturnHostCall answer) EXCLUDES(mutex_);

  // Ends the calls of a launch that is running here, and later ones at once.
  void CancelLaunch(LaunchId launch, const absl::Status& cause) EXCLUDES(mutex_);
  // No calls of the launch come any more.
  void LaunchEnded(LaunchId launch) EXCLUDES(mutex_);
  // Calls that wait for their answers.
  void Describe(WorkerActivity* activity) const EXCLUDES(mutex_);

 private:
  struct Pending {
    LaunchId launch;
    int32_t rank = 0;
    uint64_t callback = 0;
    std::chrono::steady_clock::time_point since;
    std::vector<Shape> results;
    std::vector<char*> outputs;
    absl::AnyInvocable<void(absl::Status)> done;
  };
  void Finish(Pending pending, absl::Status status, std::shared_ptr<const std::string> data);
  static absl::Status CopyOut(const Pending& pending, const std::string& data);

  const std::function<void(WorkerEvent)> emit_;
  const std::shared_ptr<WorkQueue> resume_;
  mutable Mutex mutex_;
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<RequestId, Pending> pending_ GUARDED_BY(mutex_);
  absl::flat_hash_map<LaunchId, absl::Status> cancelled_ GUARDED_BY(mutex_);  // and not yet ended
};

}  // namespace switchtower
