// What proxies may ask of the resource manager, in-process or over gRPC, as interface and values.
//
// Threads:  methods from any thread; watch callbacks on one thread of the implementation, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "types/device.h"
#include "types/ids.h"

namespace switchtower {

// A worker process that is registered and healthy.
struct WorkerInfo {
  WorkerId id;               // its incarnation
  std::string slice;         // name of its physical slice
  int32_t slice_number = 0;  // order of slices: stable over restarts of the worker
  int32_t host_index = 0;    // 0.. inside the slice: stable over restarts
  int32_t num_devices = 0;
  DeviceType device_type;
  std::string host_id;                         // equal where memory can be shared
  std::vector<std::string> command_addresses;  // where a controller connects, best first
  std::vector<std::string> data_addresses;     // where peers connect, best first
};

// A physical slice that is whole: all of its hosts are registered.
struct SliceInfo {
  std::string name;
  int32_t number = 0;
  std::string type;                 // "cpu:2x2": platform, hosts x devices a host
  std::vector<WorkerInfo> workers;  // by host_index; missing hosts are left out (then it isn't whole)
  int32_t num_hosts = 0;
  int32_t devices_per_host = 0;
  bool whole() const { return static_cast<int32_t>(workers.size()) == num_hosts; }
};

// "cpu:2x2" or "cpu:2x2x1": platform and topology.
struct SliceRequest {
  std::string type;
};

struct LeaseRequest {
  // Empty: share all slices that nobody holds exclusively.
  std::vector<SliceRequest> slices;
  std::string owner;  // for people: proxy and session
};

using LeaseId = uint64_t;

// What a lease is bound to at one moment. `version` grows with each change (a worker lost or back).
struct LeaseState {
  LeaseId id = 0;
  bool exclusive = false;
  uint64_t version = 0;
  uint64_t home_epoch = 0;        // S-3: the epoch under which this holder may launch on the slices
  std::string secret;             // per lease: opens command and data connections (S-11)
  std::vector<SliceInfo> slices;  // in the order of the request (shared: by slice number)
};

class ResourceManagerApi {
 public:
  virtual ~ResourceManagerApi() = default;
  // The slices as declared (--instance_count, --instance_type) or, undeclared, as seen so far: their types are
  // known before any worker is in. For sessions that compile without chips.
  virtual absl::StatusOr<std::vector<SliceInfo>> Slices() = 0;
  // Grants a lease or says why not: RESOURCE_EXHAUSTED if it can't be met while others hold the slices,
  // INVALID_ARGUMENT if no declared slice has that type, FAILED_PRECONDITION if another proxy is the home of the
  // shared slices. `on_change` gets each later state (first: the present one), until Release.
  using Watch = absl::AnyInvocable<void(const LeaseState&)>;
  virtual absl::StatusOr<LeaseId> Acquire(const LeaseRequest& request, Watch on_change) = 0;
  virtual void Release(LeaseId lease) = 0;
  // Tells that `worker` doesn't answer the caller. Whether it is lost is decided by its own stream to the manager
  // alone: two members may be cut off from each other and not from the rest.
  virtual void ReportUnreachable(WorkerId worker) = 0;
};

}  // namespace switchtower
