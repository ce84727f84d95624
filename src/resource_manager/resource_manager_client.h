// A proxy's side of the resource manager, over gRPC.
//
//   Link (one connection; membership and leases live with it) --ends--> on_lost: all leases are gone
//     ^----------------- keeper: connects anew, for as long as it takes -----------------'
//
// Threads:  methods from any thread, they wait for the manager's answer (not to be called on a strand that
//           must not block). Watches and `on_lost` are called on a link's reader thread and must only post.
// Lifetime: the destructor releases all leases by ending the stream.
// Errors:   Connect retries, name resolution included, until `timeout`. Afterwards, while there is no connection, calls
//           fail with UNAVAILABLE; with DEADLINE_EXCEEDED if the manager doesn't answer.
// Invariants: `on_lost` has returned before a lease is granted over the next connection.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "resource_manager/api/cluster.h"
#include "resource_manager/api/slice_home.h"

namespace switchtower {

// For how long an answer is waited for: a manager that stands still keeps its connections.
struct AnswerPatience {
  std::chrono::milliseconds for_leases{10'000};
  std::chrono::milliseconds for_lists{8'000};
};

class ResourceManagerClient : public ResourceManagerApi {
 public:
  static absl::StatusOr<std::unique_ptr<ResourceManagerClient>> Connect(const std::string& address,
                                                                        std::chrono::milliseconds timeout,
                                                                        const AnswerPatience& patience = {});
  ~ResourceManagerClient() override;

  // `on_lost` is told each time that all leases are lost; at once, if some were before. Null: nobody any more; waits
  // for a call under way.
  void WatchLosses(absl::AnyInvocable<void(const absl::Status&)> on_lost);

  // Of the manager that was heard last: a new one has another.
  std::string cluster_id() const;

  // "host:port" at which other proxies reach this one's door: they bring it their sessions (types/home_door.h) while it
  // is the home of the shared slices. Unannounced, it serves those of its own clients alone.
  void AnnounceDoor(const std::string& address);

  // Of the slices that some proxy holds now.
  absl::StatusOr<std::vector<SliceHome>> Homes();

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
