#include "wire/ifrt/shape.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/message_version.h"
#include "xla/python/ifrt/layout_serdes.pb.h"
#include "xla/python/pjrt_ifrt/pjrt_layout_serdes.pb.h"

namespace switchtower {
namespace {

absl::StatusOr<Layout> CheckedLayout(Layout layout, int rank) {
  std::vector<bool> seen(rank, false);
  bool permutation = static_cast<int>(layout.minor_to_major.size()) == rank;
  for (int64_t dim : layout.minor_to_major) {
    if (!permutation || dim < 0 || dim >= rank || seen[dim]) {
      permutation = false;
      break;
    }
    seen[dim] = true;
  }
  if (!permutation) {
    return absl::InvalidArgumentError(
        fmt::format("layout {} doesn't order the {} dimensions of the array", layout.ToString(), rank));
  }
  return layout;
}

absl::Status TiledLayoutError() {
  return absl::UnimplementedError("tiled layouts aren't supported; arrays here are dense");
}

}  // namespace

absl::StatusOr<DType> FromProto(const xla::ifrt::DTypeProto& proto) {
  RETURN_IF_ERROR(CheckMessageVersion(proto, "element type"));
  const DType dtype = static_cast<DType>(proto.kind());
  if (IsKnown(dtype)) return dtype;
  if (proto.kind() == xla::ifrt::DTypeProto::KIND_F6E2M3FN || proto.kind() == xla::ifrt::DTypeProto::KIND_F6E3M2FN) {
    return absl::UnimplementedError("six-bit floating point types aren't supported");
  }
  return absl::InvalidArgumentError(fmt::format("unknown element type {}", static_cast<int>(proto.kind())));
}

void ToProto(DType dtype, xla::ifrt::DTypeProto* proto) {
  proto->set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(dtype));
}

absl::StatusOr<Shape> FromProto(const xla::ifrt::DTypeProto& dtype, const xla::ifrt::ShapeProto& shape) {
  RETURN_IF_ERROR(CheckMessageVersion(shape, "shape"));
  Shape result;
  ASSIGN_OR_RETURN(result.dtype, FromProto(dtype));
  result.dims.assign(shape.dims().begin(), shape.dims().end());
  RETURN_IF_ERROR(ValidateShape(result));
  return result;
}

void ToProto(const std::vector<int64_t>& dims, xla::ifrt::ShapeProto* proto) {
  proto->mutable_dims()->Assign(dims.begin(), dims.end());
}

absl::StatusOr<Layout> FromProto(const xla::ifrt::LayoutProto& proto, int rank) {
  const std::string& type = proto.serialized_layout().type_name();
  const std::string& data = proto.serialized_layout().data();
  Layout layout;
  if (type == "xla::ifrt::PjRtLayout") {
    xla::ifrt::PjRtLayoutProto parsed;
    if (!parsed.ParseFromString(data)) return absl::InvalidArgumentError("layout doesn't parse");
    RETURN_IF_ERROR(CheckMessageVersion(parsed, "layout"));
    if (parsed.xla_layout().tiles_size() > 0) return TiledLayoutError();
    layout.minor_to_major.assign(parsed.xla_layout().minor_to_major().begin(),
                                 parsed.xla_layout().minor_to_major().end());
  } else if (type == "xla::ifrt::CompactLayout") {
    xla::ifrt::CompactLayoutProto parsed;
    if (!parsed.ParseFromString(data)) return absl::InvalidArgumentError("layout doesn't parse");
    RETURN_IF_ERROR(CheckMessageVersion(parsed, "layout"));
    layout.minor_to_major.assign(parsed.major_to_minor().rbegin(), parsed.major_to_minor().rend());
  } else {
    return absl::UnimplementedError(fmt::format("layouts of type \"{}\" aren't supported", type));
  }
  return CheckedLayout(std::move(layout), rank);
}

absl::StatusOr<Layout> ParseLayoutText(const std::string& text, int rank) {
  // {1,0} or {1,0:...}: what follows the colon is a list of T(...) tiles, E(bits) and S(memory space).
  const auto malformed = [&] {
    return absl::InvalidArgumentError(fmt::format("layout text \"{}\" isn't understood", text));
  };
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return malformed();
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  Layout layout;
  while (at < end && *at != ':') {
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error != std::errc()) return malformed();
    layout.minor_to_major.push_back(dim);
    at = next;
    if (at < end && *at == ',') {
      ++at;
    } else if (at < end && *at != ':') {
      return malformed();
    }
  }
  if (std::find(at, end, 'T') != end) return TiledLayoutError();
  return CheckedLayout(std::move(layout), rank);
}

void ToProto(const Layout& layout, xla::LayoutProto* proto) {
  proto->mutable_minor_to_major()->Assign(layout.minor_to_major.begin(), layout.minor_to_major.end());
}

absl::StatusOr<int64_t> StridedBytes(const Shape& shape, const std::vector<int64_t>& byte_strides) {
  if (static_cast<int>(byte_strides.size()) != shape.rank()) {
    return absl::InvalidArgumentError(
        fmt::format("{} byte strides for an array of {} dimensions", byte_strides.size(), shape.rank()));
  }
  const int64_t item = HostBytes(shape.dtype);
  if (shape.elements() == 0) return 0;
  int64_t bytes = item;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dims[d] == 1) continue;
    const int64_t stride = byte_strides[d];
    if (stride <= 0 || item == 0 || stride % item != 0) {
      return absl::InvalidArgumentError(fmt::format(
          "byte stride {} of dimension {} isn't a positive multiple of the element's {} bytes", stride, d, item));
    }
    int64_t span = 0;
    if (__builtin_mul_overflow(stride, shape.dims[d] - 1, &span) || __builtin_add_overflow(bytes, span, &bytes)) {
      return absl::InvalidArgumentError(fmt::format("byte strides of {} are too large", shape.ToString()));
    }
  }
  return bytes;
}

}  // namespace switchtower
