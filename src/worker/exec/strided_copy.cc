#include "worker/exec/strided_copy.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace switchtower {
namespace {

// Calls visit(from offset, to offset) for each index of `sizes`, row major, with one stride per dimension and side.
template <typename Visit>
void ForEachIndex(const std::vector<int64_t>& sizes, const std::vector<int64_t>& from_strides,
                  const std::vector<int64_t>& to_strides, Visit visit) {
  const int rank = static_cast<int>(sizes.size());
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  std::vector<int64_t> index(rank, 0);
  int64_t from = 0, to = 0;
  while (true) {
    visit(from, to);
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (sizes[d] == 1) continue;  // a stride that takes no step may be anything
      from += from_strides[d];
      to += to_strides[d];
      if (++index[d] < sizes[d]) break;
      from -= from_strides[d] * sizes[d];
      to -= to_strides[d] * sizes[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& dims, int64_t element_bytes) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = element_bytes;
  for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

int64_t Offset(const std::vector<int64_t>& start, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < start.size(); ++d) offset += start[d] * strides[d];
  return offset;
}

}  // namespace

absl::Status CheckBoxInside(const Box& box, const Shape& shape) {
  bool inside = static_cast<int>(box.start.size()) == shape.rank() && box.size.size() == box.start.size();
  for (int d = 0; inside && d < shape.rank(); ++d) {
    inside = box.start[d] >= 0 && box.size[d] >= 0 && box.start[d] <= shape.dims[d] &&
             box.size[d] <= shape.dims[d] - box.start[d];
  }
  if (inside) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("a piece lies outside of its shard {}", shape.ToString()));
}

bool IsWhole(const Box& box, const Shape& shape) {
  return box.size == shape.dims && std::all_of(box.start.begin(), box.start.end(), [](int64_t s) { return s == 0; });
}

int64_t BoxElements(const Box& box) {
  int64_t elements = 1;
  for (int64_t size : box.size) elements *= size;
  return elements;
}

void CopyBox(const char* from, const std::vector<int64_t>& from_dims, const Box& from_box, char* to,
             const std::vector<int64_t>& to_dims, const Box& to_box, int64_t element_bytes) {
  const std::vector<int64_t> from_strides = DenseStrides(from_dims, element_bytes);
  const std::vector<int64_t> to_strides = DenseStrides(to_dims, element_bytes);
  from += Offset(from_box.start, from_strides);
  to += Offset(to_box.start, to_strides);
  // The trailing dimensions that are one run of bytes on both sides.
  int outer = static_cast<int>(from_dims.size());
  int64_t run = element_bytes;
  while (outer > 0) {
    const int d = outer - 1;
    run *= from_box.size[d];
    --outer;
    if (from_box.size[d] != from_dims[d] || to_box.size[d] != to_dims[d]) break;
  }
  if (run == 0) return;
  const std::vector<int64_t> sizes(from_box.size.begin(), from_box.size.begin() + outer);
  ForEachIndex(sizes, from_strides, to_strides,
               [&](int64_t f, int64_t t) { std::memcpy(to + t, from + f, static_cast<size_t>(run)); });
}

absl::StatusOr<int64_t> StridedRegionBytes(const Shape& shape, const std::vector<int64_t>& byte_strides) {
  if (static_cast<int>(byte_strides.size()) != shape.rank()) {
    return absl::InvalidArgumentError(
        fmt::format("{} strides for the {} dimensions of {}", byte_strides.size(), shape.rank(), shape.ToString()));
  }
  const int64_t element = HostBytes(shape.dtype);
  if (shape.elements() == 0) return 0;
  int64_t bytes = element;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dims[d] == 1) continue;
    int64_t step = 0;
    if (byte_strides[d] < 0) {
      return absl::InvalidArgumentError("negative strides are not supported: copy the array to a dense one first");
    }
    if (__builtin_mul_overflow(byte_strides[d], shape.dims[d] - 1, &step) ||
        __builtin_add_overflow(bytes, step, &bytes)) {
      return absl::InvalidArgumentError("strides reach beyond any memory");
    }
  }
  if (bytes / kSpreadMax > shape.host_bytes()) {
    return absl::InvalidArgumentError(
        fmt::format("strides spread the {} bytes of {} over {}", shape.host_bytes(), shape.ToString(), bytes));
  }
  return bytes;
}

bool AreDense(const Shape& shape, const std::vector<int64_t>& byte_strides) {
  if (static_cast<int>(byte_strides.size()) != shape.rank()) return false;
  const std::vector<int64_t> dense = DenseStrides(shape.dims, HostBytes(shape.dtype));
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dims[d] > 1 && byte_strides[d] != dense[d]) return false;
  }
  return true;
}

void SpreadStrided(const char* dense, const Shape& shape, const std::vector<int64_t>& byte_strides, char* region) {
  const auto element = static_cast<size_t>(HostBytes(shape.dtype));
  ForEachIndex(shape.dims, DenseStrides(shape.dims, HostBytes(shape.dtype)), byte_strides,
               [&](int64_t f, int64_t t) { std::memcpy(region + t, dense + f, element); });
}

}  // namespace switchtower
