// Moving boxes and strided regions of dense row-major host arrays. Pure.
//
// Place:    worker/exec.
// Threads:  stateless.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "types/shape.h"
#include "types/sharding.h"

namespace switchtower {

// OK if `box` lies inside `shape`.
absl::Status CheckBoxInside(const Box& box, const Shape& shape);
bool IsWhole(const Box& box, const Shape& shape);
int64_t BoxElements(const Box& box);

// From one dense row-major array into another; boxes of equal sizes, checked before.
void CopyBox(const char* from, const std::vector<int64_t>& from_dims, const Box& from_box, char* to,
             const std::vector<int64_t>& to_dims, const Box& to_box, int64_t element_bytes);

// Bytes from the first element to the end of the last one, with these strides. InvalidArgument for negative or
// overlapping-by-overflow strides and for a region more than `kSpreadMax` times as large as the data: nobody may make
// a worker hold much memory with a few bytes. Strides of dimensions of one element don't count.
inline constexpr int64_t kSpreadMax = 64;
absl::StatusOr<int64_t> StridedRegionBytes(const Shape& shape, const std::vector<int64_t>& byte_strides);
bool AreDense(const Shape& shape, const std::vector<int64_t>& byte_strides);
// Spreads dense row-major elements over a region of StridedRegionBytes.
void SpreadStrided(const char* dense, const Shape& shape, const std::vector<int64_t>& byte_strides, char* region);

}  // namespace switchtower
