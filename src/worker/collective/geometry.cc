#include "worker/collective/geometry.h"

#include <fmt/format.h>

#include <string>

namespace switchtower {
namespace {

// The bytes of a buffer that a program may touch. Sub-byte elements may be packed or one a byte; the lowering knows
// which, so both are right.
bool HasBytes(const CollectiveShape::Buffer& buffer, int64_t bytes) {
  if (bytes == buffer.bytes()) return true;
  const int bits = BitWidth(buffer.dtype);
  return bits > 0 && bits < 8 && bytes == (buffer.elements * bits + 7) / 8;
}

// outer * chunk * size, or -1 if that makes no sense.
int64_t Product(int64_t outer, int64_t chunk, int64_t size) {
  int64_t bytes = 0;
  if (outer < 0 || chunk < 0 || __builtin_mul_overflow(outer, chunk, &bytes) ||
      __builtin_mul_overflow(bytes, size, &bytes)) {
    return -1;
  }
  return bytes;
}

}  // namespace

absl::Status CheckBlocks(const CollectiveShape& shape, int size, bool whole_operand, bool whole_result) {
  const size_t count = shape.operands.size();
  if (count == 0 || shape.results.size() != count || shape.outer.size() != count || shape.chunk_bytes.size() != count) {
    return absl::InvalidArgumentError(fmt::format("{}: {} operands, {} results, geometry of {} and {}",
                                                  Name(shape.kind), count, shape.results.size(), shape.outer.size(),
                                                  shape.chunk_bytes.size()));
  }
  for (size_t k = 0; k < count; ++k) {
    const int64_t whole = Product(shape.outer[k], shape.chunk_bytes[k], size);
    if (whole < 0 || !HasBytes(shape.operands[k], whole_operand ? whole : whole / size) ||
        !HasBytes(shape.results[k], whole_result ? whole : whole / size)) {
      return absl::InvalidArgumentError(
          fmt::format("{} of {} ranks: operand {} of {} bytes and result of {} bytes can't "
                      "be {} blocks of {} "
                      "bytes a rank",
                      Name(shape.kind), size, k, shape.operands[k].bytes(), shape.results[k].bytes(), shape.outer[k],
                      shape.chunk_bytes[k]));
    }
  }
  return absl::OkStatus();
}

int64_t ShardBytes(const CollectiveShape& shape) {
  int64_t bytes = 0;
  for (size_t k = 0; k < shape.outer.size(); ++k) bytes += shape.outer[k] * shape.chunk_bytes[k];
  return bytes;
}

void AddChunks(const char* whole, int64_t outer, int64_t chunk_bytes, int size, int position, PieceList& pieces) {
  pieces.AddBlocks(whole + position * chunk_bytes, chunk_bytes, outer, size * chunk_bytes);
}

}  // namespace switchtower
