#include "hlo/lower_collectives.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "hlo/collective_calls.h"
#include "hlo/module_builder.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;
using xla::F32;

absl::StatusOr<Lowered> Lower(ModuleBuilder& builder, int num_partitions) {
  ModuleRules rules;
  rules.num_partitions = num_partitions;
  return LowerCollectives(builder.module(), rules);
}

// The root of the entry computation after lowering.
xla::HloInstructionProto LoweredRoot(ModuleBuilder& builder, int num_partitions) {
  absl::StatusOr<Lowered> lowered = Lower(builder, num_partitions);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  if (!lowered.ok()) return {};
  for (const auto& computation : lowered->module.computations()) {
    if (computation.id() != lowered->module.entry_computation_id()) continue;
    for (const auto& instruction : computation.instructions()) {
      if (instruction.id() == computation.root_id()) return instruction;
    }
  }
  return {};
}

void ExpectRefused(ModuleBuilder& builder, int num_partitions, const std::string& part) {
  absl::StatusOr<Lowered> lowered = Lower(builder, num_partitions);
  ASSERT_FALSE(lowered.ok());
  EXPECT_THAT(std::string(lowered.status().message()), HasSubstr(part));
}

// all-reduce of one f32[4,2] parameter by `opcode`.
xla::HloInstructionProto* AddAllReduce(ModuleBuilder& builder, const std::string& opcode, xla::PrimitiveType type = F32,
                                       const std::vector<std::vector<int64_t>>& groups = {}) {
  const auto shape = ArrayShape(type, {4, 2});
  auto* reducer = builder.Reducer(2, opcode, type);
  auto* x = builder.Parameter(builder.entry(), 0, shape);
  auto* call = builder.Collective(builder.entry(), "all-reduce", shape, {x}, groups);
  call->add_called_computation_ids(reducer->id());
  return call;
}

TEST(LowerCollectivesTest, AllReduceBecomesACustomCallAndItsReducerGoes) {
  ModuleBuilder builder;
  auto* old = AddAllReduce(builder, "add", F32, {{0, 2}, {1, 3}});
  old->mutable_metadata()->set_source_file("step.py");
  old->mutable_metadata()->set_source_line(12);
  old->mutable_sharding()->set_type(xla::OpSharding::MANUAL);
  builder.module().mutable_device_assignment()->set_computation_count(4);
  builder.module().add_spmd_parameters_shardings();
  builder.module().mutable_spmd_output_sharding();
  absl::StatusOr<Lowered> lowered = Lower(builder, 4);
  ASSERT_TRUE(lowered.ok()) << lowered.status();

  const xla::HloModuleProto& module = lowered->module;
  ASSERT_EQ(module.computations_size(), 1);
  EXPECT_EQ(module.schedule().sequences().size(), 1u);
  EXPECT_FALSE(module.has_device_assignment());
  EXPECT_FALSE(module.has_spmd_output_sharding());
  EXPECT_EQ(module.spmd_parameters_shardings_size(), 0);

  const xla::HloInstructionProto& call = module.computations(0).instructions(1);
  EXPECT_EQ(call.opcode(), "custom-call");
  EXPECT_EQ(call.custom_call_target(), collective_target::kAllReduce);
  EXPECT_EQ(call.custom_call_api_version(), xla::API_VERSION_TYPED_FFI);
  EXPECT_EQ(call.backend_config(),
            "{op_id = 1 : i64, groups = array<i64: 0, 2, 1, 3>, group_offsets = array<i64: 0, 2, 4>, kind = 0 : i64}");
  EXPECT_EQ(call.id(), old->id());
  EXPECT_EQ(call.name(), old->name());
  EXPECT_EQ(call.operand_ids_size(), 1);
  EXPECT_EQ(call.called_computation_ids_size(), 0);
  EXPECT_EQ(call.channel_id(), 0);
  EXPECT_FALSE(call.use_global_device_ids());
  EXPECT_FALSE(call.has_collective_device_list());
  EXPECT_FALSE(call.has_sharding());

  ASSERT_EQ(lowered->collectives.size(), 1u);
  EXPECT_EQ(lowered->collectives[0].op_id, 1u);
  EXPECT_EQ(lowered->collectives[0].kind, "all-reduce");
  EXPECT_EQ(lowered->collectives[0].name, old->name());
  EXPECT_EQ(lowered->collectives[0].source, "step.py:12");
}

TEST(LowerCollectivesTest, ReducerThatIsUsedElsewhereStays) {
  ModuleBuilder builder;
  auto* call = AddAllReduce(builder, "add");
  auto* reduce = builder.Add(builder.entry(), "reduce", ArrayShape(F32, {}), {call, call});
  reduce->add_called_computation_ids(2);
  EXPECT_EQ(Lower(builder, 2)->module.computations_size(), 2);
}

TEST(LowerCollectivesTest, ReductionKinds) {
  const auto kind_of = [](const std::string& opcode, xla::PrimitiveType type) {
    ModuleBuilder builder;
    AddAllReduce(builder, opcode, type);
    return LoweredRoot(builder, 2).backend_config();
  };
  EXPECT_THAT(kind_of("multiply", F32), HasSubstr("kind = 1 "));
  EXPECT_THAT(kind_of("minimum", xla::BF16), HasSubstr("kind = 2 "));
  EXPECT_THAT(kind_of("maximum", xla::U8), HasSubstr("kind = 3 "));
  EXPECT_THAT(kind_of("and", xla::S32), HasSubstr("kind = 4 "));
  EXPECT_THAT(kind_of("or", xla::PRED), HasSubstr("kind = 5 "));
  EXPECT_THAT(kind_of("xor", xla::U64), HasSubstr("kind = 6 "));
  EXPECT_THAT(kind_of("add", xla::C64), HasSubstr("kind = 0 "));
  // On truth values arithmetic is logic.
  EXPECT_THAT(kind_of("maximum", xla::PRED), HasSubstr("kind = 5 "));
  EXPECT_THAT(kind_of("multiply", xla::PRED), HasSubstr("kind = 4 "));
}

TEST(LowerCollectivesTest, OtherReductionsAreRefusedByName) {
  const std::pair<const char*, xla::PrimitiveType> cases[] = {
      {"subtract", F32}, {"and", F32}, {"minimum", xla::C64}, {"add", xla::F8E4M3FN}};
  for (const auto& [opcode, type] : cases) {
    ModuleBuilder builder;
    AddAllReduce(builder, opcode, type);
    ExpectRefused(builder, 2, "all-reduce.");
  }
  ModuleBuilder builder;
  auto* call = AddAllReduce(builder, "add");
  auto* reducer = builder.module().mutable_computations(1);
  auto* root = builder.Add(reducer, "add", ArrayShape(F32, {}));
  root->add_operand_ids(reducer->instructions(0).id());
  root->add_operand_ids(reducer->instructions(0).id());
  ExpectRefused(builder, 2, call->name());
}

TEST(LowerCollectivesTest, VariadicAllReduce) {
  ModuleBuilder builder;
  builder.Reducer(2, "add", F32);
  const auto a = ArrayShape(F32, {4}), b = ArrayShape(F32, {2, 3}, {0, 1});
  auto* x = builder.Parameter(builder.entry(), 0, a);
  auto* y = builder.Parameter(builder.entry(), 1, b);
  auto* call = builder.Collective(builder.entry(), "all-reduce", TupleShape({a, b}), {x, y});
  call->add_called_computation_ids(2);
  EXPECT_EQ(LoweredRoot(builder, 2).operand_ids_size(), 2);
  *call->mutable_shape() = TupleShape({a, a});
  ExpectRefused(builder, 2, "operand and result");
}

std::string GatherAttributes(const xla::ShapeProto& part, const xla::ShapeProto& whole, int64_t dimension) {
  ModuleBuilder builder;
  auto* x = builder.Parameter(builder.entry(), 0, part);
  builder.Collective(builder.entry(), "all-gather", whole, {x})->add_dimensions(dimension);
  const auto root = LoweredRoot(builder, 4);
  EXPECT_EQ(root.custom_call_target(), collective_target::kAllGather);
  return root.backend_config();
}

TEST(LowerCollectivesTest, AllGatherGeometryFollowsTheLayout) {
  // Row major, cut along the slow dimension: one block.
  EXPECT_THAT(GatherAttributes(ArrayShape(F32, {2, 8}), ArrayShape(F32, {8, 8}), 0),
              HasSubstr("outer = array<i64: 1>, chunk_bytes = array<i64: 64>"));
  // Along the fast one: a block for each row.
  EXPECT_THAT(GatherAttributes(ArrayShape(F32, {8, 2}), ArrayShape(F32, {8, 8}), 1),
              HasSubstr("outer = array<i64: 8>, chunk_bytes = array<i64: 8>"));
  // Column major turns it round.
  EXPECT_THAT(GatherAttributes(ArrayShape(F32, {8, 2}, {0, 1}), ArrayShape(F32, {8, 8}, {0, 1}), 1),
              HasSubstr("outer = array<i64: 1>, chunk_bytes = array<i64: 64>"));
  EXPECT_THAT(GatherAttributes(ArrayShape(xla::S8, {2, 1, 8}, {2, 0, 1}), ArrayShape(xla::S8, {2, 4, 8}, {2, 0, 1}), 1),
              HasSubstr("outer = array<i64: 1>, chunk_bytes = array<i64: 16>"));
}

TEST(LowerCollectivesTest, AllGatherThatDoesNotFitIsRefused) {
  const auto gather = [](const xla::ShapeProto& part, const xla::ShapeProto& whole, int64_t dimension,
                         const std::string& why) {
    ModuleBuilder builder;
    auto* x = builder.Parameter(builder.entry(), 0, part);
    builder.Collective(builder.entry(), "all-gather", whole, {x})->add_dimensions(dimension);
    ExpectRefused(builder, 4, why);
  };
  gather(ArrayShape(F32, {2, 8}), ArrayShape(F32, {4, 8}), 0, "group size");
  gather(ArrayShape(F32, {2, 8}), ArrayShape(F32, {8, 8}), 2, "out of range");
  gather(ArrayShape(F32, {2, 8}), ArrayShape(F32, {8, 8}), -1, "out of range");
  gather(ArrayShape(F32, {2, 8}), ArrayShape(F32, {8, 8}, {0, 1}), 0, "layouts");
  gather(ArrayShape(F32, {2, 8}), ArrayShape(xla::S32, {8, 8}), 0, "type");
  gather(ArrayShape(xla::S4, {1LL << 62, 8}), ArrayShape(xla::S4, {1LL << 62, 8}), 0, "all-gather.");
}

TEST(LowerCollectivesTest, ReduceScatter) {
  ModuleBuilder builder;
  builder.Reducer(2, "add", F32);
  auto* x = builder.Parameter(builder.entry(), 0, ArrayShape(F32, {6, 8}));
  auto* call = builder.Collective(builder.entry(), "reduce-scatter", ArrayShape(F32, {6, 2}), {x});
  call->add_dimensions(1);
  call->add_called_computation_ids(2);
  const auto root = LoweredRoot(builder, 4);
  EXPECT_EQ(root.custom_call_target(), collective_target::kReduceScatter);
  EXPECT_EQ(root.backend_config(),
            "{op_id = 1 : i64, groups = array<i64: 0, 1, 2, 3>, group_offsets = array<i64: 0, 4>, kind = 0 : i64, "
            "outer = array<i64: 6>, chunk_bytes = array<i64: 8>}");
}

TEST(LowerCollectivesTest, AllToAllForms) {
  const auto shape = ArrayShape(F32, {2, 8});
  ModuleBuilder tuple;
  auto* x = tuple.Parameter(tuple.entry(), 0, shape);
  auto* call = tuple.Collective(tuple.entry(), "all-to-all", TupleShape({shape, shape}), {x, x});
  EXPECT_EQ(LoweredRoot(tuple, 2).custom_call_target(), collective_target::kAllToAll);
  call->add_operand_ids(x->id());
  *call->mutable_shape()->add_tuple_shapes() = shape;
  ExpectRefused(tuple, 2, "operand for each member");

  ModuleBuilder array;
  auto* y = array.Parameter(array.entry(), 0, shape);
  array.Collective(array.entry(), "all-to-all", shape, {y})->add_dimensions(1);
  const auto root = LoweredRoot(array, 2);
  EXPECT_EQ(root.custom_call_target(), collective_target::kAllToAllArray);
  EXPECT_THAT(root.backend_config(), HasSubstr("outer = array<i64: 2>, chunk_bytes = array<i64: 16>"));
}

TEST(LowerCollectivesTest, PermuteBroadcastAndIds) {
  const auto shape = ArrayShape(xla::PRED, {3});
  ModuleBuilder permute;
  auto* x = permute.Parameter(permute.entry(), 0, shape);
  auto* pair = permute.Collective(permute.entry(), "collective-permute", shape, {x})->add_source_target_pairs();
  pair->set_source(1);
  EXPECT_EQ(LoweredRoot(permute, 2).backend_config(),
            "{op_id = 1 : i64, sources = array<i64: 1>, targets = array<i64: 0>}");

  ModuleBuilder none;
  x = none.Parameter(none.entry(), 0, shape);
  none.Collective(none.entry(), "collective-permute", shape, {x});
  EXPECT_EQ(LoweredRoot(none, 2).backend_config(), "{op_id = 1 : i64, sources = array<i64>, targets = array<i64>}");

  ModuleBuilder broadcast;
  x = broadcast.Parameter(broadcast.entry(), 0, shape);
  broadcast.Collective(broadcast.entry(), "collective-broadcast", shape, {x}, {{2, 1}});
  EXPECT_THAT(LoweredRoot(broadcast, 4).backend_config(), HasSubstr("groups = array<i64: 2, 1>"));

  ModuleBuilder partition;
  partition.Add(partition.entry(), "partition-id", ArrayShape(xla::U32, {}));
  EXPECT_EQ(LoweredRoot(partition, 4).custom_call_target(), collective_target::kPartitionId);
  EXPECT_EQ(LoweredRoot(partition, 4).backend_config(), "{}");
  EXPECT_TRUE(Lower(partition, 4)->collectives.empty());

  ModuleBuilder replica;
  replica.Add(replica.entry(), "replica-id", ArrayShape(xla::U32, {}));
  const auto root = LoweredRoot(replica, 4);
  EXPECT_EQ(root.opcode(), "constant");
  ASSERT_EQ(root.literal().u32s_size(), 1);
  EXPECT_EQ(root.literal().u32s(0), 0u);
}

TEST(LowerCollectivesTest, RaggedAllToAll) {
  ModuleBuilder builder;
  const auto output = ArrayShape(F32, {16, 4}), list = ArrayShape(xla::S32, {4});
  auto* x = builder.Parameter(builder.entry(), 0, ArrayShape(F32, {8, 4}));
  auto* y = builder.Parameter(builder.entry(), 1, output);
  auto* n = builder.Parameter(builder.entry(), 2, list);
  auto* call = builder.Collective(builder.entry(), "ragged-all-to-all", output, {x, y, n, n, n, n});
  EXPECT_EQ(LoweredRoot(builder, 4).custom_call_target(), collective_target::kRaggedAllToAll);
  EXPECT_THAT(LoweredRoot(builder, 4).backend_config(), HasSubstr("row_bytes = 16 : i64"));
  ExpectRefused(builder, 3, "equally many");
  call->mutable_operand_ids()->RemoveLast();
  ExpectRefused(builder, 4, "six operands");
}

TEST(LowerCollectivesTest, GroupsMustHoldEveryRank) {
  ModuleBuilder builder;
  AddAllReduce(builder, "add", F32, {{0, 1}});
  ExpectRefused(builder, 4, "only 2 of 4");
}

// entry -> call -> body with an all-reduce.
ModuleBuilder WithCallers(int callers, const std::string& opcode) {
  ModuleBuilder builder;
  const auto shape = ArrayShape(F32, {4});
  builder.Reducer(2, "add", F32);
  auto* body = builder.AddComputation(3, "body");
  auto* x = builder.Parameter(body, 0, shape);
  builder.Collective(body, "all-reduce", shape, {x})->add_called_computation_ids(2);
  x = builder.Parameter(builder.entry(), 0, shape);
  for (int i = 0; i < callers; ++i) {
    builder.Add(builder.entry(), opcode, shape, {x})->add_called_computation_ids(3);
  }
  return builder;
}

TEST(LowerCollectivesTest, ACollectiveRunsAtOnePlace) {
  ModuleBuilder once = WithCallers(1, "while");
  EXPECT_EQ(Lower(once, 2)->collectives.size(), 1u);
  ModuleBuilder twice = WithCallers(2, "call");
  ExpectRefused(twice, 2, "called from 2 places");
  ModuleBuilder inside = WithCallers(1, "map");
  ExpectRefused(inside, 2, "inside map");
}

TEST(LowerCollectivesTest, CircularCallsAreRefused) {
  ModuleBuilder builder = WithCallers(0, "call");
  auto* body = builder.module().mutable_computations(2);
  builder.Add(body, "call", ArrayShape(F32, {4}))->add_called_computation_ids(3);
  ExpectRefused(builder, 2, "circle");
}

TEST(LowerCollectivesTest, RefusedOperations) {
  for (const char* opcode : {"send", "recv-done", "infeed", "outfeed", "rng-get-and-update-state", "async-start",
                             "all-reduce-start", "all-gather-done", "collective-permute-start"}) {
    ModuleBuilder builder;
    builder.Add(builder.entry(), opcode, ArrayShape(F32, {}));
    ExpectRefused(builder, 2, opcode);
  }
}

TEST(LowerCollectivesTest, CustomCallsPassByName) {
  const auto lower = [](const std::string& target, const char* extra) {
    ModuleBuilder builder;
    builder.Add(builder.entry(), "custom-call", ArrayShape(F32, {}))->set_custom_call_target(target);
    ModuleRules rules;
    if (extra != nullptr) rules.custom_call_targets.insert(extra);
    return LowerCollectives(builder.module(), rules).status().code();
  };
  for (const char* target : {"system", "SliceToDynamic"}) {
    EXPECT_EQ(lower(target, nullptr), absl::StatusCode::kUnimplemented);
  }
  EXPECT_EQ(lower("lapack_spotrf_ffi", "lapack_spotrf_ffi"), absl::StatusCode::kOk);
  // A client can't call our handlers, whatever the list says.
  EXPECT_EQ(lower("switchtower.all_reduce", nullptr), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(lower("switchtower.all_reduce", "switchtower.all_reduce"), absl::StatusCode::kInvalidArgument);
}

TEST(LowerCollectivesTest, PartitionLimit) {
  ModuleBuilder builder;
  AddAllReduce(builder, "add");
  EXPECT_TRUE(Lower(builder, 2048).ok());
  ExpectRefused(builder, 2049, "2048");
  ExpectRefused(builder, 0, "partitions");
}

TEST(LowerCollectivesTest, OpIdsFollowTheModule) {
  ModuleBuilder builder;
  const auto shape = ArrayShape(F32, {4});
  auto* x = builder.Parameter(builder.entry(), 0, shape);
  auto* y = builder.Collective(builder.entry(), "collective-permute", shape, {x});
  builder.Collective(builder.entry(), "collective-permute", shape, {y});
  absl::StatusOr<Lowered> lowered = Lower(builder, 2);
  ASSERT_TRUE(lowered.ok());
  ASSERT_EQ(lowered->collectives.size(), 2u);
  EXPECT_EQ(lowered->collectives[1].op_id, 2u);
  EXPECT_THAT(lowered->module.computations(0).instructions(2).backend_config(), HasSubstr("op_id = 2 "));
}

TEST(LowerCollectivesTest, UnknownFieldsOfOtherInstructionsSurvive) {
  ModuleBuilder builder;
  auto* x = builder.Parameter(builder.entry(), 0, ArrayShape(F32, {4}));
  x->GetReflection()->MutableUnknownFields(x)->AddVarint(900, 5);
  builder.Collective(builder.entry(), "collective-permute", ArrayShape(F32, {4}), {x});
  const auto lowered = Lower(builder, 2);
  ASSERT_TRUE(lowered.ok());
  const auto& kept = lowered->module.computations(0).instructions(0);
  EXPECT_EQ(kept.GetReflection()->GetUnknownFields(kept).field_count(), 1);
}

}  // namespace
}  // namespace switchtower
