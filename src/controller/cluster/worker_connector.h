// Opens a command channel to a worker of a lease.
//
// Threads:  Connect from any thread; `done` runs once, on any thread.
// Errors:   a sentence that says which address failed and why. An implementation pauses before it fails, so
//           that a caller which tries again doesn't spin.
#pragma once

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "resource_manager/api/cluster.h"
#include "worker_api/channel.h"

namespace switchtower {

struct WorkerConnectRequest {
  WorkerInfo worker;
  LeaseId lease = 0;
  std::string secret;
  uint64_t home_epoch = 0;
};

class WorkerConnector {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<WorkerChannel>>)>;
  virtual ~WorkerConnector() = default;
  virtual void Connect(WorkerConnectRequest request, Done done) = 0;
};

}  // namespace switchtower
