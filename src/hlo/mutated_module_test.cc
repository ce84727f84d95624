// Whatever bytes arrive as a module: an answer or an error, no crash and no large allocation.

#include <random>

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "hlo/hlo_text.h"
#include "hlo/lower_collectives.h"
#include "hlo/module_builder.h"
#include "hlo/program_info.h"

namespace switchtower {
namespace {

using xla::F32;

// One of each form.
xla::HloModuleProto Everything() {
  ModuleBuilder builder;
  builder.Reducer(2, "add", F32);
  const auto shape = ArrayShape(F32, {4, 2});
  auto* x = builder.Parameter(builder.entry(), 0, shape);
  auto* a = builder.Collective(builder.entry(), "all-reduce", shape, {x}, {{0, 1}, {2, 3}});
  a->add_called_computation_ids(2);
  auto* g = builder.Collective(builder.entry(), "all-gather", ArrayShape(F32, {16, 2}), {a});
  g->add_dimensions(0);
  auto* iota = g->mutable_iota_collective_device_list();
  iota->set_num_replica_groups(1);
  iota->set_num_devices_per_group(4);
  for (int i : {0, 1}) {
    iota->add_iota_reshape_dims(2);
    iota->add_iota_transpose_perm(1 - i);
  }
  auto* s = builder.Collective(builder.entry(), "reduce-scatter", shape, {g});
  s->add_dimensions(0);
  s->add_called_computation_ids(2);
  auto* mesh = s->mutable_mesh_axes_replica_group_list();
  mesh->mutable_mesh()->add_axes()->set_size(4);
  auto* ref = mesh->add_axes();
  ref->mutable_sub_axis_info()->set_pre_size(1);
  ref->mutable_sub_axis_info()->set_size(4);
  auto* p = builder.Collective(builder.entry(), "collective-permute", shape, {s});
  p->add_source_target_pairs()->set_target(1);
  builder.Collective(builder.entry(), "all-to-all", TupleShape({shape, shape, shape, shape}), {p, p, p, p});
  auto* constant = builder.Add(builder.entry(), "constant", ArrayShape(F32, {2}));
  *constant->mutable_literal()->mutable_shape() = ArrayShape(F32, {2});
  constant->mutable_literal()->add_f32s(1);
  builder.Add(builder.entry(), "partition-id", ArrayShape(xla::U32, {}));
  xla::HloModuleProto module = builder.module();
  *module.mutable_host_program_shape()->add_parameters() = shape;
  *module.mutable_host_program_shape()->mutable_result() = TupleShape({shape});
  auto* sharding = module.add_spmd_parameters_shardings();
  sharding->set_type(xla::OpSharding::OTHER);
  for (int64_t n : {4, 1}) sharding->add_tile_assignment_dimensions(n);
  module.mutable_spmd_output_sharding()->set_type(xla::OpSharding::TUPLE);
  *module.mutable_spmd_output_sharding()->add_tuple_shardings() = *sharding;
  module.mutable_input_output_alias()->add_entries();
  return module;
}

std::string Mutated(std::string bytes, std::mt19937& random) {
  const int edits = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1);
        break;
      case 2:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      default:
        bytes[at] ^= static_cast<char>(1 << (random() % 8));
        break;
    }
  }
  return bytes;
}

TEST(MutatedModuleTest, TheModuleItselfPasses) {
  ModuleRules rules;
  rules.num_partitions = 4;
  const auto lowered = LowerCollectives(Everything(), rules);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->collectives.size(), 5u);
  EXPECT_TRUE(DescribeProgram(Everything(), 4).ok());
}

TEST(MutatedModuleTest, AnswersOrRefuses) {
  // The parser logs each wrong UTF-8 string.
  google::protobuf::LogSilencer quiet;
  const std::string bytes = Everything().SerializeAsString();
  std::mt19937 random(20240607);
  ModuleRules rules;
  rules.num_partitions = 4;
  int parsed = 0, refused = 0;
  for (int i = 0; i < 12000; ++i) {
    xla::HloModuleProto module;
    if (!module.ParseFromString(Mutated(bytes, random))) continue;
    ++parsed;
    EXPECT_LT(ModuleText(module).size(), 100000u);
    (void)DescribeProgram(module, 4);
    if (!LowerCollectives(std::move(module), rules).ok()) ++refused;
  }
  // The mutations reach our code, and it does refuse.
  EXPECT_GT(parsed, 500);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace switchtower
