#include "hlo/geometry.h"

#include <algorithm>

#include "base/status_macros.h"
#include "hlo/element_type.h"

namespace switchtower {

absl::StatusOr<BlockGeometry> GeometryOfPart(const xla::ShapeProto& part, int64_t dimension) {
  // Keeps all products below within range.
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(part));
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(part));
  BlockGeometry geometry;
  ASSIGN_OR_RETURN(geometry.chunk_bytes, ElementBytes(part));
  if (dimension < 0 || dimension >= shape.rank()) {
    return absl::InvalidArgumentError("the dimension is out of range");
  }
  bool inside = true;
  for (int64_t dim : layout.minor_to_major) {
    (inside ? geometry.chunk_bytes : geometry.outer) *= shape.dims[dim];
    if (dim == dimension) inside = false;
  }
  return geometry;
}

absl::Status CheckSameOrder(const xla::ShapeProto& a, const xla::ShapeProto& b) {
  ASSIGN_OR_RETURN(const Shape shape_a, ShapeOf(a));
  ASSIGN_OR_RETURN(const Shape shape_b, ShapeOf(b));
  RETURN_IF_ERROR(ElementBytes(a).status());
  RETURN_IF_ERROR(ElementBytes(b).status());
  if (shape_a.dtype != shape_b.dtype) return absl::InvalidArgumentError("operand and result differ in type");
  if (shape_a.rank() != shape_b.rank()) return absl::InvalidArgumentError("operand and result differ in rank");
  ASSIGN_OR_RETURN(const Layout layout_a, LayoutOf(a));
  ASSIGN_OR_RETURN(const Layout layout_b, LayoutOf(b));
  if (layout_a != layout_b) {
    return absl::UnimplementedError("operand and result have different layouts");
  }
  return absl::OkStatus();
}

absl::Status CheckSameArray(const xla::ShapeProto& a, const xla::ShapeProto& b) {
  RETURN_IF_ERROR(CheckSameOrder(a, b));
  if (!std::equal(a.dimensions().begin(), a.dimensions().end(), b.dimensions().begin(), b.dimensions().end())) {
    return absl::InvalidArgumentError("operand and result differ in dimensions");
  }
  return absl::OkStatus();
}

}  // namespace switchtower
