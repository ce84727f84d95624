// Who is in the cluster and who holds what: the resource manager's state and decisions, without clock, socket or thread
// of its own.
//
// Place:    resource_manager; ResourceManagerServer sits above.
// Threads:  none of its own; the owner serialises all calls.
// Errors:   sentences for people, codes as in resource_manager/api/cluster.h.
// Invariants: I-3 a slice is in at most one exclusive lease, and never in a shared one as well.
//             A worker id is never given twice (random 64 bits), so it is the incarnation too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

// In an instance type: the platform is that of the first worker.
inline constexpr char kAnyPlatform[] = "any";

struct ClusterOptions {
  // Slices that will come, all of one type; 0 and "": slices are learned from workers (then --slice and
  // --host-index must be given by each worker, and a slice is whole with the hosts seen so far).
  int32_t instance_count = 0;
  std::string instance_type;  // "cpu:2x2": platform, hosts x devices a host
};

// "cpu:2x2" -> platform, hosts, devices a host. "cpu:4" is one host of 4 devices; "cpu:4x4x2" counts the
// last number as devices of a host and the product of the others as hosts.
struct SliceType {
  std::string platform;
  int32_t hosts = 0;
  int32_t devices_per_host = 0;
  static absl::StatusOr<SliceType> Parse(const std::string& text);
  std::string ToString() const;
};
// "cpu:2x2,cpu:2x2" -> one type an entry.
absl::StatusOr<std::vector<std::string>> ParseSliceTypes(const std::string& text);

struct Registration {
  std::string slice;        // empty: any slice with room
  int32_t host_index = -1;  // -1: any free place
  WorkerInfo worker;        // id, slice and place are filled in
};

class ClusterTable {
 public:
  // `random` gives 64 unguessable bits; `epoch_floor` is the least epoch to hand out (the time in
  // microseconds, so that a restarted manager never repeats one).
  ClusterTable(ClusterOptions options, std::function<uint64_t()> random, uint64_t epoch_floor);

  static absl::Status Validate(const ClusterOptions& options);

  // The worker with its id and place, or why it can't be in the cluster.
  absl::StatusOr<WorkerInfo> Register(const Registration& registration);
  // Idempotent. Leases that include the worker get a new version.
  void Remove(WorkerId worker);

  absl::StatusOr<LeaseId> Acquire(const LeaseRequest& request);
  void Release(LeaseId lease);
  // The one lease on the shared slices, if there is one: its holder is their home.
  std::optional<LeaseId> SharedLease() const;
  std::optional<LeaseId> HolderOf(const SliceInfo& slice) const;

  std::vector<SliceInfo> Slices() const;
  absl::StatusOr<LeaseState> State(LeaseId lease) const;
  // Leases whose state changed since the last call.
  std::vector<LeaseId> TakeChanged();
  // The leases that may command `worker` now.
  std::vector<LeaseState> GrantsOf(WorkerId worker) const;
  std::vector<WorkerId> Workers() const;

 private:
  struct Slice {
    std::string name;
    int32_t number = 0;
    int32_t num_hosts = 0;  // 0: not declared; grows with the hosts seen
    int32_t devices_per_host = 0;
    std::string platform;
    std::map<int32_t, WorkerInfo> workers;  // by host index
    std::optional<LeaseId> holder;
    bool shared = false;  // held by the shared lease
  };
  struct Lease {
    LeaseState state;  // slices are filled in on demand
    std::vector<int32_t> slice_numbers;
    std::string owner;
  };

  absl::StatusOr<Slice*> PlaceFor(const Registration& registration);
  absl::Status CheckFits(const Slice& slice, const WorkerInfo& worker) const;
  absl::StatusOr<std::vector<int32_t>> ChooseExclusive(const LeaseRequest& request) const;
  absl::StatusOr<std::vector<int32_t>> ChooseShared() const;
  void Changed(const Slice& slice);
  SliceInfo Describe(const Slice& slice) const;

  const ClusterOptions options_;
  const std::function<uint64_t()> random_;
  uint64_t last_epoch_;
  std::map<int32_t, Slice> slices_;  // by number
  std::map<LeaseId, Lease> leases_;
  std::vector<LeaseId> changed_;
};

}  // namespace switchtower
