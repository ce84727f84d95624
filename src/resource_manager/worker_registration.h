// A worker's membership: registers, beats, and hands on which leases may command the worker.
//
// Threads:  Join waits; `on_grants` and `on_lost` run on the reader thread.
// Errors:   Join retries while the manager can't be reached and while its old self is still taken as alive
//           (a restarted worker); what the manager refuses for good comes back at once.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

struct LeaseGrant {
  LeaseId lease = 0;
  std::string secret;
  uint64_t epoch = 0;
};

struct WorkerIdentity {
  WorkerId id;
  std::string cluster_id;
  std::string slice;
  int32_t slice_number = 0;
  int32_t host_index = 0;
};

class WorkerRegistration {
 public:
  struct Options {
    std::string manager;  // "host:port"
    std::chrono::milliseconds timeout{60000};
    std::string slice;        // empty: the manager chooses
    int32_t host_index = -1;  // -1: the manager chooses
    WorkerInfo worker;        // id and place are left out
    // Replaces all that was granted before. May come before Join returns, but after `on_identity`.
    absl::AnyInvocable<void(std::vector<LeaseGrant>)> on_grants;
    absl::AnyInvocable<void(const WorkerIdentity&)> on_identity;
    absl::AnyInvocable<void(absl::Status)> on_lost;
  };
  static absl::StatusOr<std::unique_ptr<WorkerRegistration>> Join(Options options);
  ~WorkerRegistration();

  const WorkerIdentity& identity() const;

 private:
  class Impl;
  explicit WorkerRegistration(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace switchtower
