#include "controller/arrays/device_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

std::vector<int64_t> AscendingDims(int rank) {
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

}  // namespace

DeviceTable::DeviceTable(const std::vector<SeatedSlice>& slices, std::vector<std::string> memory_kinds)
    : memory_kinds_(std::move(memory_kinds)) {
  int32_t task = 0;
  for (size_t s = 0; s < slices.size(); ++s) {
    const SliceInfo& slice = slices[s].info;
    for (int32_t host = 0; host < slice.num_hosts; ++host, ++task) {
      const int32_t seat = slices[s].first_seat + host;
      slice_of_seat_[seat] = static_cast<int32_t>(s);
      if (seat >= static_cast<int32_t>(devices_of_seat_.size())) devices_of_seat_.resize(seat + 1);
      devices_of_seat_[seat] = slice.devices_per_host;
      for (int32_t ordinal = 0; ordinal < slice.devices_per_host; ++ordinal) {
        VirtualDevice device;
        device.id = DeviceId{devices_.size()};
        device.slice_index = static_cast<int32_t>(s);
        device.task_index = task;
        device.ordinal_on_host = ordinal;
        device.coords = {ordinal, host, 0};
        device.colocation_id = static_cast<int32_t>(devices_.size());
        devices_.push_back(std::move(device));
        places_.push_back(Place{seat, ordinal});
      }
    }
  }
}

std::vector<MemoryDescription> DeviceTable::Memories() const {
  std::vector<MemoryDescription> memories;
  const int32_t kinds = static_cast<int32_t>(memory_kinds_.size());
  for (const VirtualDevice& device : devices_) {
    for (int32_t k = 0; k < kinds; ++k) {
      memories.push_back(
          MemoryDescription{static_cast<int32_t>(device.id.value) * kinds + k, memory_kinds_[k], k, device.id});
    }
  }
  return memories;
}

absl::StatusOr<Place> DeviceTable::Find(DeviceId device) const {
  if (device.value >= places_.size()) {
    return absl::InvalidArgumentError(
        fmt::format("device {} isn't one of this session's {} devices", device.value, places_.size()));
  }
  return places_[device.value];
}

absl::StatusOr<DeviceListPtr> DeviceTable::Intern(absl::Span<const DeviceId> devices) {
  std::vector<Place> places;
  places.reserve(devices.size());
  absl::flat_hash_set<DeviceId> seen;
  for (DeviceId device : devices) {
    ASSIGN_OR_RETURN(Place place, Find(device));
    if (!seen.insert(device).second) {
      return absl::InvalidArgumentError(fmt::format("device {} is named twice", device.value));
    }
    places.push_back(place);
  }
  DeviceListPtr& list = lists_[places];
  if (list == nullptr) list = DeviceList::Make(std::move(places), devices_of_seat_);
  return list;
}

DeviceListPtr DeviceTable::Single(const Place& place) {
  DeviceListPtr& list = lists_[{place}];
  if (list == nullptr) list = DeviceList::Make({place}, devices_of_seat_);
  return list;
}

absl::Status DeviceTable::CheckMemoryKind(const std::string& kind) const {
  if (kind.empty() || std::find(memory_kinds_.begin(), memory_kinds_.end(), kind) != memory_kinds_.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("no memory of kind \"{}\"; the devices have {}", kind, fmt::join(memory_kinds_, ", ")));
}

bool DeviceTable::SameMemory(const std::string& a, const std::string& b) const {
  const std::string& standard = memory_kinds_.empty() ? a : memory_kinds_.front();
  return (a.empty() ? standard : a) == (b.empty() ? standard : b);
}

absl::StatusOr<ArrayInfoPtr> DeviceTable::Describe(const ArraySpec& spec) {
  RETURN_IF_ERROR(ValidateShape(spec.shape));
  RETURN_IF_ERROR(ValidateSharding(spec.sharding, spec.shape));
  RETURN_IF_ERROR(CheckMemoryKind(spec.sharding.memory_kind));
  if (spec.sharding.kind == Sharding::Kind::kConcrete) {
    for (const std::vector<int64_t>& dims : spec.sharding.shard_shapes) {
      RETURN_IF_ERROR(ValidateShape(Shape{spec.shape.dtype, dims}));
    }
  }
  if (spec.layout.has_value()) {
    std::vector<int64_t> order = spec.layout->minor_to_major;
    std::sort(order.begin(), order.end());
    if (order != AscendingDims(spec.shape.rank())) {
      return absl::InvalidArgumentError(
          fmt::format("layout {} doesn't fit shape {}", spec.layout->ToString(), spec.shape.ToString()));
    }
  }
  ASSIGN_OR_RETURN(DeviceListPtr devices, Intern(spec.sharding.devices));
  return std::make_shared<const ArrayInfo>(ArrayInfo{spec, std::move(devices)});
}

}  // namespace switchtower
