// Orders of devices that programs describe by formulas: a reshaped and transposed iota, and a mesh read along
// some of its axes.
//
// Place:    hlo; used by participants and program_info.
// Threads:  pure functions.
// Errors:   InvalidArgument for descriptions that contradict themselves or name more than `limit` devices.
//           Memory and time are bounded by `limit` and the size of the description.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// 0..n-1 reshaped to `dims`, transposed by `perm` and flattened; n is the product of `dims`.
absl::StatusOr<std::vector<int64_t>> TransposedIota(absl::Span<const int64_t> dims, absl::Span<const int64_t> perm,
                                                    int64_t limit);

enum class NamedAxes { kFirst, kLast };

struct MeshOrder {
  std::vector<int64_t> devices;  // all devices of the mesh
  int64_t named_size = 1;        // product of the named axes' sizes
};

// The mesh's devices with the axes in `refs` moved to the major or the minor end, in the order of `refs`; the
// other axes keep their order. A part of an axis counts as an axis of its own.
absl::StatusOr<MeshOrder> OrderMesh(const xla::MeshProto& mesh, const std::vector<xla::AxisRefProto>& refs,
                                    NamedAxes where, int64_t limit);

// Size of one axis reference, whole or part.
absl::StatusOr<int64_t> AxisRefSize(const xla::MeshProto& mesh, const xla::AxisRefProto& ref);

}  // namespace switchtower
