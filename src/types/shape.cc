#include "types/shape.h"

#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace switchtower {

int64_t Shape::elements() const {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

int64_t PackedBytes(const Shape& shape) {
  const int bits = BitWidth(shape.dtype);
  if (bits == 0 || bits >= 8) return shape.host_bytes();
  const int64_t elements = shape.elements(), each = 8 / bits;
  return elements / each + (elements % each != 0 ? 1 : 0);
}

int64_t AddBytes(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

std::string Shape::ToString() const { return fmt::format("{}[{}]", Name(dtype), fmt::join(dims, ",")); }

absl::Status ValidateShape(const Shape& shape) {
  if (!IsKnown(shape.dtype)) {
    return absl::InvalidArgumentError(fmt::format("unknown element type {}", static_cast<int>(shape.dtype)));
  }
  if (shape.rank() > kMaxRank) {
    return absl::InvalidArgumentError(
        fmt::format("shape has {} dimensions, at most {} are supported", shape.rank(), kMaxRank));
  }
  // The product of the non-zero dimensions is bounded, so that no partial product overflows either.
  int64_t bytes = std::max<int64_t>(1, HostBytes(shape.dtype));
  for (int64_t dim : shape.dims) {
    if (dim < 0) {
      return absl::InvalidArgumentError(fmt::format("shape {} has a negative dimension", shape.ToString()));
    }
    if (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes)) {
      return absl::InvalidArgumentError(fmt::format("shape {} is too large", shape.ToString()));
    }
  }
  return absl::OkStatus();
}

Layout Layout::Default(int rank) {
  Layout layout;
  layout.minor_to_major.reserve(rank);
  for (int i = rank - 1; i >= 0; --i) layout.minor_to_major.push_back(i);
  return layout;
}

bool Layout::IsDefault() const { return *this == Default(static_cast<int>(minor_to_major.size())); }

std::string Layout::ToString() const { return fmt::format("{{{}}}", fmt::join(minor_to_major, ",")); }

std::vector<int64_t> Layout::ByteStrides(const Shape& shape) const {
  std::vector<int64_t> strides(shape.dims.size());
  int64_t stride = HostBytes(shape.dtype);
  for (int64_t dim : minor_to_major) {
    strides[dim] = stride;
    stride *= shape.dims[dim];
  }
  return strides;
}

}  // namespace switchtower
