// The small values that commands and events are made of: types <-> messages of worker.proto.
//
// Errors:   From... functions check what comes from outside and give InvalidArgument.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "switchtower/worker.pb.h"
#include "types/device.h"
#include "types/ids.h"
#include "types/shape.h"
#include "types/sharding.h"

namespace switchtower::worker_wire {

namespace pb = ::switchtower::worker;

void ToProto(const absl::Status& status, pb::Status* out);
void ToProto(const LaunchId& id, pb::LaunchId* out);
void ToProto(const PhysicalDevice& device, pb::Device* out);
void ToProto(const Shape& shape, pb::Shape* out);
void ToProto(const Layout& layout, pb::Layout* out);
void ToProto(const std::vector<int64_t>& strides, pb::ByteStrides* out);
void ToProto(const Box& box, pb::Box* out);

absl::Status FromProto(const pb::Status& in, absl::Status* out);
// A cause: must not be OK.
absl::Status CauseFromProto(const pb::Status& in, absl::Status* out);
LaunchId FromProto(const pb::LaunchId& in);
absl::StatusOr<PhysicalDevice> FromProto(const pb::Device& in);
absl::StatusOr<Shape> FromProto(const pb::Shape& in);
// A permutation of the dimensions of `rank`.
absl::StatusOr<Layout> FromProto(const pb::Layout& in, int rank);
Box FromProto(const pb::Box& in);
// Inside `shape`.
absl::Status CheckBox(const Box& box, const Shape& shape);

template <typename Repeated>
absl::Status DevicesFromProto(const Repeated& in, std::vector<PhysicalDevice>* out) {
  out->reserve(in.size());
  for (const pb::Device& device : in) {
    absl::StatusOr<PhysicalDevice> parsed = FromProto(device);
    if (!parsed.ok()) return parsed.status();
    out->push_back(*parsed);
  }
  return absl::OkStatus();
}

}  // namespace switchtower::worker_wire
