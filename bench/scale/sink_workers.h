// Workers that do nothing, in the controller's own process: they count what they are sent and, when told to, say that
// all of it has ended. What is left of a launch's cost is the controller's.
//
// Place:    bench/scale.
// Threads:  channels are used by the home strand; the rest on the measuring thread, while no command is on its way.
// Lifetime: outlives the controller.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "controller/cluster/worker_connector.h"

namespace switchtower::bench {

class SinkWorkers : public WorkerConnector {
 public:
  void Connect(WorkerConnectRequest request, Done done) override;

  struct Counts {
    uint64_t commands = 0;       // values sent, each to one worker
    uint64_t encoded_bytes = 0;  // of values, encoded for the first worker that they go to
    uint64_t sent_bytes = 0;     // of the same, to all workers
  };
  // After AwaitLaunches.
  const Counts& counts() const { return counts_; }
  // Returns when the workers have had so many launches, over all of them.
  void AwaitLaunches(uint64_t launches) EXCLUDES(mutex_);
  // One watermark from each worker that had launches since the last time, and an answer to each question.
  void Answer();

 private:
  class Channel;
  void Took(const std::shared_ptr<const SharedCommand>& command) EXCLUDES(mutex_);

  Counts counts_;                              // the home strand's, ahead of launches_
  std::shared_ptr<const SharedCommand> last_;  // the same
  std::atomic<uint64_t> launches_{0}, awaited_{UINT64_MAX};
  Mutex mutex_;
  CondVar changed_;
  std::vector<Channel*> channels_ GUARDED_BY(mutex_);
};

}  // namespace switchtower::bench
