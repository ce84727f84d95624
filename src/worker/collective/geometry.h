// Where the chunks of a block-cut array lie (the geometry of hlo/collective_calls.h), for the algorithms.
//
// Place:    worker/collective.
// Threads:  pure functions.
#pragma once

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "worker/collective/algorithm.h"

namespace switchtower {

// Checks outer and chunk_bytes of every operand against the buffers. An array that is `whole` has the chunks of all
// positions, a shard those of one.
absl::Status CheckBlocks(const CollectiveShape& shape, int size, bool whole_operand, bool whole_result);

// Bytes of one rank's shards of all operands.
int64_t ShardBytes(const CollectiveShape& shape);

// The chunks of `position` in all blocks of a whole array.
void AddChunks(const char* whole, int64_t outer, int64_t chunk_bytes, int size, int position, PieceList& pieces);

// Does nothing for zero bytes, where either pointer may be null, nor where both are the same.
inline void CopyBytes(char* to, const char* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, static_cast<size_t>(bytes));
}

// Blocks of `chunk_bytes` from one stride to another.
inline void CopyBlocks(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t outer,
                       int64_t chunk_bytes) {
  if (to_stride == chunk_bytes && from_stride == chunk_bytes) {
    CopyBytes(to, from, outer * chunk_bytes);
    return;
  }
  for (int64_t b = 0; b < outer; ++b) CopyBytes(to + b * to_stride, from + b * from_stride, chunk_bytes);
}

}  // namespace switchtower
