// Elementwise reductions in a fixed order: ((start + r0) + r1) + ..., rounded to the element type at each step.
//
// Place:    worker/collective; under the algorithms, knows nothing of groups or messages.
// Threads:  pure functions.
// Errors:   Unimplemented for a pair of element type and kind that has no meaning.
//
// Sums begin at zero and products at one, as XLA's own CPU collectives do, so that a sum of negative zeros has the same
// bits here and there. Minimum and maximum give NaN if any element is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "hlo/collective_calls.h"
#include "types/dtype.h"

namespace switchtower {

struct Reducer {
  // acc = identity op source, and acc = acc op source, for `count` elements. Neither pointer need be aligned; they
  // don't overlap.
  using Step = void (*)(char* acc, const char* source, size_t count);
  Step start = nullptr;
  Step fold = nullptr;
  size_t element_bytes = 0;
};

absl::StatusOr<Reducer> FindReducer(DType dtype, ReductionKind kind);

// Reduces `count` elements of all sources in their order and writes the outcome to each destination. A destination may
// be one of the sources itself (at the same address).
void Reduce(const Reducer& reducer, absl::Span<const char* const> sources, absl::Span<char* const> destinations,
            size_t count);

// `count` blocks of `block_bytes`, one every `stride` bytes. stride == block_bytes: contiguous.
struct StridedSource {
  const char* data = nullptr;
  int64_t stride = 0;
};

// Reduces bytes [begin, end) of a shard made of blocks of `block_bytes` into `destination` (the whole shard,
// contiguous). begin and end are multiples of the element size.
void ReduceShard(const Reducer& reducer, absl::Span<const StridedSource> sources, int64_t block_bytes, int64_t begin,
                 int64_t end, char* destination);

}  // namespace switchtower
