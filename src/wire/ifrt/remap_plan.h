// xla.ifrt.RemapPlanProto, expanded to one mapping for each shard.
//
// Errors: InvalidArgument if an interval leaves its array's shards, if both sides of a mapping differ in
//         length, or if a shard of an output is given twice or not at all.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/ifrt/array_spec.h"
#include "xla/python/ifrt/remap_plan.pb.h"

namespace switchtower {

struct RemapPlan {
  // Shard `from_shard` of inputs[in] becomes shard `to_shard` of outputs[out].
  struct Move {
    int32_t in = 0, out = 0;
    int32_t from_shard = 0, to_shard = 0;
  };
  std::vector<ParsedArraySpec> inputs, outputs;
  std::vector<Move> moves;
};

absl::StatusOr<RemapPlan> FromProto(const xla::ifrt::RemapPlanProto& proto, const DeviceSet& known);

}  // namespace switchtower
