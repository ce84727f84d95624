// Where a rank's part of an array lies in memory, when the array is cut along one dimension in some layout.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// `outer` blocks one after the other; the part is chunk_bytes of each.
struct BlockGeometry {
  int64_t outer = 1;
  int64_t chunk_bytes = 0;
};

// Of the array `part`, which is one of several equal parts along `dimension`.
absl::StatusOr<BlockGeometry> GeometryOfPart(const xla::ShapeProto& part, int64_t dimension);

// OK if the two have the same element type and the same order in memory, and are dense arrays of whole bytes
// whose sizes are in range.
absl::Status CheckSameOrder(const xla::ShapeProto& a, const xla::ShapeProto& b);

// OK if they have the same dimensions too.
absl::Status CheckSameArray(const xla::ShapeProto& a, const xla::ShapeProto& b);

}  // namespace switchtower
