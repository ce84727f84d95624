// A proxy's side of the resource manager, over gRPC.
//
// Threads:  methods from any thread, they wait for the manager's answer (not to be called on a strand that
//           must not block). Watches are called on the client's reader thread.
// Lifetime: the destructor releases all leases by ending the stream.
// Errors:   Connect retries, name resolution included, until `timeout`; afterwards a lost manager makes
//           calls fail with UNAVAILABLE and `on_lost` is called once.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

class ResourceManagerClient : public ResourceManagerApi {
 public:
  static absl::StatusOr<std::unique_ptr<ResourceManagerClient>> Connect(const std::string& address,
                                                                        std::chrono::milliseconds timeout,
                                                                        absl::AnyInvocable<void(absl::Status)> on_lost);
  ~ResourceManagerClient() override;

  const std::string& cluster_id() const;

  absl::StatusOr<std::vector<SliceInfo>> Slices() override;
  absl::StatusOr<LeaseId> Acquire(const LeaseRequest& request, Watch on_change) override;
  void Release(LeaseId lease) override;
  void ReportUnreachable(WorkerId worker) override;

 private:
  class Impl;
  explicit ResourceManagerClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace switchtower
