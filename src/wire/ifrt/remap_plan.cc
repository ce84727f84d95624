#include "wire/ifrt/remap_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/message_version.h"

namespace switchtower {
namespace {

using Mapping = xla::ifrt::RemapPlanProto::MappingProto;

// Appends start, start + step, ... below `end`, all of which must be shards.
absl::Status Expand(int64_t start, int64_t end, int64_t step, int64_t shards, std::vector<int32_t>* out) {
  if (start < 0 || step < 1 || end < start) {
    return absl::InvalidArgumentError(fmt::format("remap interval [{}:{}:{}] isn't valid", start, end, step));
  }
  for (int64_t shard = start; shard < end; shard += step) {
    if (shard >= shards) {
      return absl::InvalidArgumentError(
          fmt::format("remap interval [{}:{}:{}] leaves the array's {} shards", start, end, step, shards));
    }
    out->push_back(static_cast<int32_t>(shard));
    if (step > shards) break;  // also keeps the sum in range
  }
  return absl::OkStatus();
}

absl::Status CheckLists(const Mapping& mapping, const RemapPlan& plan) {
  const int count = mapping.from_start_size();
  if (mapping.from_end_size() != count || mapping.from_step_size() != count || mapping.to_start_size() != count ||
      mapping.to_end_size() != count || mapping.to_step_size() != count) {
    return absl::InvalidArgumentError("a remap mapping has interval lists of unequal length");
  }
  if (mapping.in_array() < 0 || mapping.in_array() >= static_cast<int>(plan.inputs.size()) || mapping.out_array() < 0 ||
      mapping.out_array() >= static_cast<int>(plan.outputs.size())) {
    return absl::InvalidArgumentError(fmt::format("a remap mapping names array {} -> {} of {} -> {}",
                                                  mapping.in_array(), mapping.out_array(), plan.inputs.size(),
                                                  plan.outputs.size()));
  }
  return absl::OkStatus();
}

absl::Status AppendMoves(const Mapping& mapping, std::vector<std::vector<bool>>* filled, RemapPlan* plan) {
  RETURN_IF_ERROR(CheckLists(mapping, *plan));
  const int64_t in_shards = plan->inputs[mapping.in_array()].sharding.num_shards();
  const int64_t out_shards = plan->outputs[mapping.out_array()].sharding.num_shards();
  for (int i = 0; i < mapping.from_start_size(); ++i) {
    std::vector<int32_t> from, to;
    RETURN_IF_ERROR(Expand(mapping.from_start(i), mapping.from_end(i), mapping.from_step(i), in_shards, &from));
    RETURN_IF_ERROR(Expand(mapping.to_start(i), mapping.to_end(i), mapping.to_step(i), out_shards, &to));
    if (from.size() != to.size()) {
      return absl::InvalidArgumentError(fmt::format("a remap mapping takes {} shards for {}", from.size(), to.size()));
    }
    for (size_t k = 0; k < from.size(); ++k) {
      auto slot = (*filled)[mapping.out_array()][to[k]];
      if (slot) {
        return absl::InvalidArgumentError(
            fmt::format("remap fills shard {} of output {} twice", to[k], mapping.out_array()));
      }
      slot = true;
      plan->moves.push_back({mapping.in_array(), mapping.out_array(), from[k], to[k]});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RemapPlan> FromProto(const xla::ifrt::RemapPlanProto& proto, const DeviceSet& known) {
  RETURN_IF_ERROR(CheckMessageVersion(proto, "remap plan"));
  RemapPlan plan;
  for (const auto& spec : proto.input_specs()) {
    ASSIGN_OR_RETURN(plan.inputs.emplace_back(), FromProto(spec, known));
  }
  std::vector<std::vector<bool>> filled;
  for (const auto& spec : proto.output_specs()) {
    ASSIGN_OR_RETURN(plan.outputs.emplace_back(), FromProto(spec, known));
    filled.emplace_back(plan.outputs.back().sharding.num_shards(), false);
  }
  for (const Mapping& mapping : proto.mappings()) RETURN_IF_ERROR(AppendMoves(mapping, &filled, &plan));
  for (size_t i = 0; i < filled.size(); ++i) {
    const auto hole = std::find(filled[i].begin(), filled[i].end(), false);
    if (hole != filled[i].end()) {
      return absl::InvalidArgumentError(
          fmt::format("remap gives shard {} of output {} no content", hole - filled[i].begin(), i));
    }
  }
  return plan;
}

}  // namespace switchtower
