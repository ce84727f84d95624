// XLA's element types as ours. The numbers differ for some narrow types, so nothing may cast between the two.
#pragma once

#include "absl/status/statusor.h"
#include "types/dtype.h"
#include "types/shape.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// Unimplemented for tuples, buffers and types that have no DType.
absl::StatusOr<DType> DTypeOf(xla::PrimitiveType type);

// Dense arrays and tokens only; limits as ValidateShape. Unimplemented for tuples and dynamic dimensions.
absl::StatusOr<Shape> ShapeOf(const xla::ShapeProto& shape);

// Row major if the shape carries no layout. InvalidArgument if minor_to_major isn't a permutation of the
// dimensions, Unimplemented for tiles and bit-packed elements.
absl::StatusOr<Layout> LayoutOf(const xla::ShapeProto& shape);

// Whole bytes of one element, at least 1. Unimplemented as above.
absl::StatusOr<int64_t> ElementBytes(const xla::ShapeProto& shape);

}  // namespace switchtower
