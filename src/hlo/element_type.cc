#include "hlo/element_type.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace switchtower {

absl::StatusOr<DType> DTypeOf(xla::PrimitiveType type) {
  switch (type) {
    case xla::PRED:
      return DType::kPred;
    case xla::S1:
      return DType::kS1;
    case xla::S2:
      return DType::kS2;
    case xla::S4:
      return DType::kS4;
    case xla::S8:
      return DType::kS8;
    case xla::S16:
      return DType::kS16;
    case xla::S32:
      return DType::kS32;
    case xla::S64:
      return DType::kS64;
    case xla::U1:
      return DType::kU1;
    case xla::U2:
      return DType::kU2;
    case xla::U4:
      return DType::kU4;
    case xla::U8:
      return DType::kU8;
    case xla::U16:
      return DType::kU16;
    case xla::U32:
      return DType::kU32;
    case xla::U64:
      return DType::kU64;
    case xla::F16:
      return DType::kF16;
    case xla::F32:
      return DType::kF32;
    case xla::F64:
      return DType::kF64;
    case xla::BF16:
      return DType::kBF16;
    case xla::C64:
      return DType::kC64;
    case xla::C128:
      return DType::kC128;
    case xla::F8E5M2:
      return DType::kF8E5M2;
    case xla::F8E4M3FN:
      return DType::kF8E4M3FN;
    case xla::F8E4M3B11FNUZ:
      return DType::kF8E4M3B11FNUZ;
    case xla::F8E5M2FNUZ:
      return DType::kF8E5M2FNUZ;
    case xla::F8E4M3FNUZ:
      return DType::kF8E4M3FNUZ;
    case xla::F8E4M3:
      return DType::kF8E4M3;
    case xla::F8E3M4:
      return DType::kF8E3M4;
    case xla::F4E2M1FN:
      return DType::kF4E2M1FN;
    case xla::F8E8M0FNU:
      return DType::kF8E8M0FNU;
    case xla::TOKEN:
      return DType::kToken;
    case xla::OPAQUE_TYPE:
      return DType::kOpaque;
    default:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("element type ", static_cast<int>(type), " isn't supported"));
}

absl::StatusOr<Shape> ShapeOf(const xla::ShapeProto& proto) {
  Shape shape;
  ASSIGN_OR_RETURN(shape.dtype, DTypeOf(proto.element_type()));
  for (bool dynamic : proto.is_dynamic_dimension()) {
    if (dynamic) return absl::UnimplementedError("dimensions of dynamic size aren't supported");
  }
  shape.dims.assign(proto.dimensions().begin(), proto.dimensions().end());
  RETURN_IF_ERROR(ValidateShape(shape));
  return shape;
}

absl::StatusOr<Layout> LayoutOf(const xla::ShapeProto& shape) {
  const int rank = shape.dimensions_size();
  if (rank > kMaxRank) return absl::InvalidArgumentError("too many dimensions");
  if (!shape.has_layout()) return Layout::Default(rank);
  if (shape.layout().tiles_size() > 0) return absl::UnimplementedError("tiled layouts aren't supported");
  if (shape.layout().minor_to_major_size() != rank) {
    return absl::InvalidArgumentError("a layout of another rank than its shape");
  }
  Layout layout;
  std::vector<bool> seen(rank, false);
  for (int64_t dim : shape.layout().minor_to_major()) {
    if (dim < 0 || dim >= rank || seen[dim]) return absl::InvalidArgumentError("a layout that isn't a permutation");
    seen[dim] = true;
    layout.minor_to_major.push_back(dim);
  }
  return layout;
}

absl::StatusOr<int64_t> ElementBytes(const xla::ShapeProto& shape) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeOf(shape.element_type()));
  const int64_t bytes = HostBytes(dtype);
  const int64_t packed_bits = shape.layout().element_size_in_bits();
  if (bytes < 1 || (packed_bits != 0 && packed_bits != bytes * 8)) {
    return absl::UnimplementedError(
        absl::StrCat("elements of type ", std::string(Name(dtype)), " don't take whole bytes"));
  }
  return bytes;
}

}  // namespace switchtower
