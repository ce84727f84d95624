// A client's remap plan: what parses fills each shard of each output once, from shards that are there.
#include <vector>

#include "base/check.h"
#include "tests/fuzz/proto_target.h"
#include "wire/ifrt/remap_plan.h"

namespace switchtower::fuzz {
namespace {

void Run(const xla::ifrt::RemapPlanProto& input) {
  DeviceSet known;
  for (uint64_t id = 0; id < 8; ++id) known.insert(DeviceId{id});
  const auto plan = FromProto(input, known);
  if (!plan.ok()) return;
  std::vector<std::vector<int>> filled;
  for (const ParsedArraySpec& output : plan->outputs) filled.emplace_back(output.sharding.num_shards(), 0);
  for (const RemapPlan::Move& move : plan->moves) {
    CHECK(move.from_shard >= 0 && move.from_shard < plan->inputs.at(move.in).sharding.num_shards());
    ++filled.at(move.out).at(move.to_shard);
  }
  for (const auto& shards : filled) {
    for (int times : shards) CHECK(times == 1);
  }
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(xla::ifrt::RemapPlanProto, switchtower::fuzz::Run)
