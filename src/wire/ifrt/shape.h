// Element types, shapes and layouts between the IFRT protos and our types.
//
// Errors: InvalidArgument for what can't be; Unimplemented for what XLA has and we don't (tiled layouts,
//         six-bit floats).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "types/shape.h"
#include "xla/python/ifrt/dtype.pb.h"
#include "xla/python/ifrt/layout.pb.h"
#include "xla/python/ifrt/shape.pb.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

absl::StatusOr<DType> FromProto(const xla::ifrt::DTypeProto& proto);
void ToProto(DType dtype, xla::ifrt::DTypeProto* proto);

// A valid shape (ValidateShape).
absl::StatusOr<Shape> FromProto(const xla::ifrt::DTypeProto& dtype, const xla::ifrt::ShapeProto& shape);
void ToProto(const std::vector<int64_t>& dims, xla::ifrt::ShapeProto* proto);

// `rank`: of the array; a layout must order exactly its dimensions.
absl::StatusOr<Layout> FromProto(const xla::ifrt::LayoutProto& proto, int rank);
absl::StatusOr<Layout> ParseLayoutText(const std::string& text, int rank);
void ToProto(const Layout& layout, xla::LayoutProto* proto);

// The bytes of an array of `shape` laid out with `byte_strides` (one a dimension), from its first element to
// the end of its last. Strides must be positive multiples of the element's size; those of dimensions of one
// element don't count. Not for strings.
absl::StatusOr<int64_t> StridedBytes(const Shape& shape, const std::vector<int64_t>& byte_strides);

}  // namespace switchtower
