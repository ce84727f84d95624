// Array shapes and layouts as values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "types/dtype.h"

namespace switchtower {

// Outside limits keep products of dimensions within int64 and memory plausible.
inline constexpr int kMaxRank = 64;

struct Shape {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;  // elements, major to minor as the user writes them

  friend bool operator==(const Shape&, const Shape&) = default;
  int rank() const { return static_cast<int>(dims.size()); }
  int64_t elements() const;
  // Dense bytes in a host buffer (sub-byte types: one byte an element).
  int64_t host_bytes() const { return elements() * HostBytes(dtype); }
  // "f32[8,128]"
  std::string ToString() const;
};

// Dense bytes where types below a byte are packed, as inside a device.
int64_t PackedBytes(const Shape& shape);

// The sum of two byte counts, or the most that an int64 holds. A client may describe arrays of as many bytes each;
// nothing has that much room, so the sum needn't be exact.
int64_t AddBytes(int64_t a, int64_t b);

// Checks dtype, rank, signs and that the byte count fits an int64: for shapes from outside.
absl::Status ValidateShape(const Shape& shape);

// Dimension numbers from the fastest varying to the slowest. Tiles aren't supported.
struct Layout {
  std::vector<int64_t> minor_to_major;

  friend bool operator==(const Layout&, const Layout&) = default;
  // Row major: {rank-1, ..., 0}.
  static Layout Default(int rank);
  bool IsDefault() const;
  // XLA's text form: "{1,0}", and "{}" for rank 0.
  std::string ToString() const;
  // Byte stride of each dimension (major to minor order of the dims) in a dense host buffer.
  std::vector<int64_t> ByteStrides(const Shape& shape) const;
};

}  // namespace switchtower
