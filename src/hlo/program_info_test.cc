#include "hlo/program_info.h"

#include <limits>

#include <gtest/gtest.h>

#include "hlo/module_builder.h"
#include "hlo/shard_counts.h"

namespace switchtower {
namespace {

using xla::F32;
using Dims = std::vector<int64_t>;

xla::OpSharding Tiles(const Dims& dims, bool replicate_last = false) {
  xla::OpSharding sharding;
  sharding.set_type(xla::OpSharding::OTHER);
  int64_t devices = 1;
  for (int64_t dim : dims) {
    sharding.add_tile_assignment_dimensions(dim);
    devices *= dim;
  }
  sharding.add_iota_reshape_dims(devices);
  sharding.add_iota_transpose_perm(0);
  sharding.set_replicate_on_last_tile_dim(replicate_last);
  return sharding;
}

// (f32[4,8] cut [2,1] of 4, f32[]) -> f32[2]
xla::HloModuleProto Module() {
  ModuleBuilder builder;
  builder.Parameter(builder.entry(), 0, ArrayShape(F32, {2, 8}));
  xla::HloModuleProto module = builder.module();
  auto* program = module.mutable_host_program_shape();
  *program->add_parameters() = ArrayShape(F32, {2, 8}, {0, 1});
  *program->add_parameters() = ArrayShape(xla::F4E2M1FN, {});
  *program->mutable_result() = ArrayShape(xla::S32, {2});
  *module.add_spmd_parameters_shardings() = Tiles({2, 1, 2}, true);
  module.add_spmd_parameters_shardings()->set_type(xla::OpSharding::REPLICATED);
  *module.mutable_spmd_output_sharding() = Tiles({4});
  return module;
}

TEST(ProgramInfoTest, GlobalShapesAreShardsTimesTiles) {
  const absl::StatusOr<ProgramInfo> info = DescribeProgram(Module(), 4);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, "jit_test");
  EXPECT_EQ(info->num_partitions, 4);
  ASSERT_EQ(info->parameters.size(), 2u);
  EXPECT_EQ(info->parameters[0].shape.dims, (Dims{4, 8}));
  EXPECT_EQ(info->parameters[0].shard_shape.dims, (Dims{2, 8}));
  EXPECT_EQ(info->parameters[0].layout.minor_to_major, (Dims{0, 1}));
  EXPECT_EQ(info->parameters[0].memory_kind, "device");
  EXPECT_EQ(info->parameters[0].op_sharding, Tiles({2, 1, 2}, true).SerializeAsString());
  EXPECT_EQ(info->parameters[1].shape.dtype, DType::kF4E2M1FN);
  ASSERT_EQ(info->results.size(), 1u);
  EXPECT_EQ(info->results[0].shape.dims, (Dims{8}));
}

TEST(ProgramInfoTest, ReplicatedIsNotTheSameAsNotGiven) {
  xla::HloModuleProto module = Module();
  const auto given = DescribeProgram(module, 4);
  ASSERT_TRUE(given.ok());
  ASSERT_FALSE(given->parameters[1].op_sharding.empty());
  xla::OpSharding parsed;
  ASSERT_TRUE(parsed.ParseFromString(given->parameters[1].op_sharding));
  EXPECT_EQ(parsed.type(), xla::OpSharding::REPLICATED);
  module.clear_spmd_parameters_shardings();
  const auto not_given = DescribeProgram(module, 4);
  ASSERT_TRUE(not_given.ok());
  EXPECT_TRUE(not_given->parameters[1].op_sharding.empty());
  EXPECT_EQ(not_given->parameters[0].shape, not_given->parameters[0].shard_shape);
}

TEST(ProgramInfoTest, TokensGoInAndOutAsEmptyArrays) {
  xla::ShapeProto token;
  token.set_element_type(xla::TOKEN);
  ModuleBuilder builder;
  xla::HloModuleProto module = builder.module();
  *module.mutable_host_program_shape()->add_parameters() = token;
  *module.mutable_host_program_shape()->mutable_result() = token;
  const auto info = DescribeProgram(module, 1);
  ASSERT_TRUE(info.ok()) << info.status();
  for (const ProgramValue& value : {info->parameters[0], info->results[0]}) {
    EXPECT_EQ(value.shape, (Shape{DType::kPred, {0}}));
    EXPECT_EQ(value.shard_shape, value.shape);
    EXPECT_EQ(value.memory_kind, "device");
  }
}

TEST(ProgramInfoTest, TuplesOfResults) {
  xla::HloModuleProto module = Module();
  auto* result = module.mutable_host_program_shape()->mutable_result();
  *result = TupleShape({ArrayShape(F32, {2}), ArrayShape(F32, {3})});
  auto* sharding = module.mutable_spmd_output_sharding();
  sharding->Clear();
  sharding->set_type(xla::OpSharding::TUPLE);
  *sharding->add_tuple_shardings() = Tiles({4});
  sharding->add_tuple_shardings();
  auto info = DescribeProgram(module, 4);
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->results.size(), 2u);
  EXPECT_EQ(info->results[0].shape.dims, (Dims{8}));
  EXPECT_EQ(info->results[1].shape.dims, (Dims{3}));

  sharding->mutable_tuple_shardings()->RemoveLast();
  EXPECT_EQ(DescribeProgram(module, 4).status().code(), absl::StatusCode::kInvalidArgument);
  *result = TupleShape({});
  module.clear_spmd_output_sharding();
  EXPECT_TRUE(DescribeProgram(module, 4)->results.empty());
  *result = TupleShape({TupleShape({})});
  EXPECT_EQ(DescribeProgram(module, 4).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ProgramInfoTest, MemoryKinds) {
  const auto kind = [](int64_t space) -> std::string {
    xla::HloModuleProto module = Module();
    module.mutable_host_program_shape()->mutable_result()->mutable_layout()->set_memory_space(space);
    auto info = DescribeProgram(module, 4);
    return info.ok() ? info->results[0].memory_kind : "refused";
  };
  EXPECT_EQ(kind(0), "device");
  EXPECT_EQ(kind(5), "pinned_host");
  EXPECT_EQ(kind(6), "unpinned_host");
  EXPECT_EQ(kind(77), "refused");
}

TEST(ProgramInfoTest, AliasesAreDonatedAndDonorsWithoutAliasAreKept) {
  xla::HloModuleProto module = Module();
  module.mutable_buffer_donor()->add_entries()->set_parameter_number(1);
  EXPECT_TRUE(DescribeProgram(module, 4)->donatable_parameters.empty());
  module.mutable_input_output_alias()->add_entries()->set_parameter_number(0);
  EXPECT_EQ(DescribeProgram(module, 4)->donatable_parameters, (std::vector<int32_t>{0}));
  module.mutable_input_output_alias()->add_entries()->set_parameter_number(1);
  EXPECT_EQ(DescribeProgram(module, 4)->donatable_parameters, (std::vector<int32_t>{0, 1}));
  module.mutable_input_output_alias()->add_entries()->set_parameter_number(2);
  EXPECT_FALSE(DescribeProgram(module, 4).ok());
}

TEST(ProgramInfoTest, SourceComesFromTheStackFrames) {
  xla::HloModuleProto module = Module();
  module.mutable_computations(0)->mutable_instructions(0)->mutable_metadata()->set_stack_frame_id(1);
  EXPECT_EQ(DescribeProgram(module, 4)->source, "");
  auto* index = module.mutable_stack_frame_index();
  index->add_file_names("train.py");
  auto* location = index->add_file_locations();
  location->set_file_name_id(1);
  location->set_line(31);
  index->add_stack_frames()->set_file_location_id(1);
  EXPECT_EQ(DescribeProgram(module, 4)->source, "train.py:31");
}

TEST(ProgramInfoTest, WrongShardingsAreRefused) {
  for (const xla::OpSharding& sharding : {Tiles({8, 1}), Tiles({2}), Tiles({-2, -2}), Tiles({1LL << 40, 1})}) {
    xla::HloModuleProto module = Module();
    *module.mutable_spmd_parameters_shardings(0) = sharding;
    EXPECT_FALSE(DescribeProgram(module, 4).ok());
  }
}

TEST(ProgramInfoTest, NamedShardingsAreWrittenOut) {
  xla::OpSharding sharding;
  auto* named = sharding.mutable_named_sharding();
  for (int64_t size : {2, 4}) named->mutable_mesh()->add_axes()->set_size(size);
  named->add_dim_shardings();
  named->add_dim_shardings()->add_axes()->set_mesh_axis_index(1);
  EXPECT_EQ(*ShardCounts(sharding, 2, 8), (Dims{1, 4}));
  const xla::OpSharding tiles = *AsTileSharding(sharding, 8);
  EXPECT_EQ(Dims(tiles.tile_assignment_dimensions().begin(), tiles.tile_assignment_dimensions().end()),
            (Dims{1, 4, 2}));
  EXPECT_TRUE(tiles.replicate_on_last_tile_dim());
  // The tile of column block c is held by devices c and 4 + c.
  EXPECT_EQ(Dims(tiles.tile_assignment_devices().begin(), tiles.tile_assignment_devices().end()),
            (Dims{0, 4, 1, 5, 2, 6, 3, 7}));
  named->mutable_dim_shardings(1)->clear_axes();
  EXPECT_EQ(AsTileSharding(sharding, 8)->type(), xla::OpSharding::REPLICATED);
}

// Nothing is divided by the number of their tiles.
TEST(ProgramInfoTest, AxesOfNoDevicesAreRefused) {
  for (int64_t size : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    xla::OpSharding sharding;
    auto* named = sharding.mutable_named_sharding();
    named->mutable_mesh()->add_axes()->set_size(size);
    for (int i = 0; i < 3; ++i) named->add_dim_shardings()->add_axes()->set_mesh_axis_index(0);
    EXPECT_FALSE(ShardCounts(sharding, 3, 8).ok()) << size;
  }
}

TEST(ProgramInfoTest, UnreducedAxesAreGroupsThatCutNothing) {
  xla::OpSharding sharding;
  auto* named = sharding.mutable_named_sharding();
  for (int64_t size : {2, 2, 2}) named->mutable_mesh()->add_axes()->set_size(size);
  named->add_dim_shardings()->add_axes()->set_mesh_axis_index(2);
  named->add_unreduced_axes()->set_mesh_axis_index(0);
  EXPECT_EQ(*ShardCounts(sharding, 1, 8), (Dims{2}));
  const xla::OpSharding tiles = *AsTileSharding(sharding, 8);
  EXPECT_EQ(Dims(tiles.tile_assignment_dimensions().begin(), tiles.tile_assignment_dimensions().end()),
            (Dims{2, 2, 2}));
  ASSERT_EQ(tiles.last_tile_dims_size(), 2);
  EXPECT_EQ(tiles.last_tile_dims(0), xla::OpSharding::UNREDUCED);
  EXPECT_EQ(tiles.last_tile_dims(1), xla::OpSharding::REPLICATED);
  EXPECT_FALSE(tiles.replicate_on_last_tile_dim());
  // Half h of the array is held by the devices whose last coordinate is h, in groups by their first.
  EXPECT_EQ(Dims(tiles.tile_assignment_devices().begin(), tiles.tile_assignment_devices().end()),
            (Dims{0, 2, 4, 6, 1, 3, 5, 7}));
}

}  // namespace
}  // namespace switchtower
