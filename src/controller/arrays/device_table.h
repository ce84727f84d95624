// A session's virtual devices: what the client sees of them and which place of the lease each one is.
//
// Threads:  const methods on any; Intern, Single and Describe on the session's strand.
// Errors:   INVALID_ARGUMENT for a device or memory kind that the session doesn't have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "controller/api/session.h"
#include "controller/arrays/array_info.h"
#include "controller/cluster/place.h"
#include "controller/cluster/seat_map.h"

namespace switchtower {

class DeviceTable {
 public:
  DeviceTable() = default;
  // Devices get ids 0, 1, ... in the order of slices, hosts and ordinals.
  DeviceTable(const std::vector<SeatedSlice>& slices, std::vector<std::string> memory_kinds);

  const std::vector<VirtualDevice>& devices() const { return devices_; }
  const std::vector<std::string>& memory_kinds() const { return memory_kinds_; }
  std::vector<MemoryDescription> Memories() const;

  absl::StatusOr<Place> Find(DeviceId device) const;
  // For places of this session's devices only.
  int32_t SliceOf(const Place& place) const { return slice_of_seat_.at(place.seat); }
  // The shared list for these devices, in this order; a device may be named once.
  absl::StatusOr<DeviceListPtr> Intern(absl::Span<const DeviceId> devices);
  // The shared list of one place.
  DeviceListPtr Single(const Place& place);
  absl::Status CheckMemoryKind(const std::string& kind) const;
  // Empty means the default; both name the same memory.
  bool SameMemory(const std::string& a, const std::string& b) const;

  // Checks a description from outside and gives it places.
  absl::StatusOr<ArrayInfoPtr> Describe(const ArraySpec& spec);

 private:
  std::vector<VirtualDevice> devices_;
  std::vector<Place> places_;  // by id
  std::vector<std::string> memory_kinds_;
  absl::flat_hash_map<int32_t, int32_t> slice_of_seat_;
  std::vector<int32_t> devices_of_seat_;
  absl::flat_hash_map<std::vector<Place>, DeviceListPtr> lists_;
};

}  // namespace switchtower
