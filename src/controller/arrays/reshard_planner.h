// Which bytes of which source shard go into which destination shard, when an array changes its sharding.
//
// Place:  controller/arrays; a pure function.
// Errors: INVALID_ARGUMENT if the sources don't hold all that a destination needs.
// Invariants: R-1 the pieces of a destination cover its shard exactly once. R-2 each piece comes from the
//         cheapest holder of its bytes: the same device, then the same worker, then the same slice, then
//         whoever has sent least so far. R-3 the plan depends on the arguments alone.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "controller/cluster/place.h"
#include "types/sharding.h"

namespace switchtower {

struct ShardPlace {
  Place place;
  int32_t slice = 0;
  Box box;  // of the shard in the whole array
};

// Indices are into the two lists; boxes are inside the shards and of equal size.
struct ReshardPiece {
  size_t source = 0;
  size_t destination = 0;
  Box source_box;
  Box destination_box;
};

// Source boxes are either equal (replicas) or disjoint, as those of any sharding are.
absl::StatusOr<std::vector<ReshardPiece>> PlanReshard(absl::Span<const ShardPlace> sources,
                                                      absl::Span<const ShardPlace> destinations);

}  // namespace switchtower
