// The whole way through the real plug-in; skipped where the build knows none.
#include "compiler/compile_pipeline.h"

#include <cstdlib>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/cpu_partitioner.h"
#include "compiler/stub_handlers.h"
#include "compiler/testing_programs.h"
#include "pjrt/plugin.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A sum over a dimension that is spread over `x`, so it ends in an all-reduce.
constexpr char kSum[] = R"(
module @jit_sum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

constexpr char kDouble[] = R"(
module @jit_double attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<3xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
})";

std::string CallOf(const std::string& target) {
  return R"(
module @jit_call attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.custom_call @)" +
         target + R"((%arg0) {api_version = 4 : i32} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
})";
}

class CompilePipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(SWITCHTOWER_PJRT_PLUGIN).empty()) GTEST_SKIP() << "no PJRT plug-in";
    auto plugin = pjrt::Plugin::Load(SWITCHTOWER_PJRT_PLUGIN);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    plugin_ = *plugin;
    ASSERT_TRUE(RegisterStubHandlers(*plugin_, CollectiveTargets()).ok());
    ASSERT_TRUE(RegisterStubHandlers(*plugin_, NativeTargets()).ok());
    // The transform is registered once a process.
    static ProgramPartitioner* partitioner = CpuPartitioner::Create(*plugin_)->release();
    pipeline_ = std::make_unique<CompilePipeline>(*partitioner, NativeTargets());
  }
  absl::StatusOr<CompiledProgram> Compile(const std::string& module, int partitions) {
    return pipeline_->Compile(ProgramId{HashOf('a')}, module, TestOptions(partitions, 100).SerializeAsString());
  }

  pjrt::Plugin* plugin_ = nullptr;
  std::unique_ptr<CompilePipeline> pipeline_;
};

TEST_F(CompilePipelineTest, LowersAProgramOfFourPartitions) {
  const auto program = Compile(kSum, 4);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->id.hash, HashOf('a'));
  EXPECT_EQ(program->info.fingerprint, HashOf('a'));
  EXPECT_EQ(program->info.name, "jit_sum");
  EXPECT_EQ(program->info.num_partitions, 4);
  ASSERT_EQ(program->info.parameters.size(), 1u);
  EXPECT_THAT(program->info.parameters[0].shape.dims, ElementsAre(8, 4));
  EXPECT_THAT(program->info.parameters[0].shard_shape.dims, ElementsAre(2, 4));
  ASSERT_EQ(program->info.results.size(), 1u);
  EXPECT_THAT(program->info.results[0].shape.dims, ElementsAre(4));
  EXPECT_EQ(program->info.results[0].memory_kind, "device");
  ASSERT_EQ(program->info.collectives.size(), 1u);
  EXPECT_EQ(program->info.collectives[0].kind, "all-reduce");
  EXPECT_EQ(program->info.memory.arguments, 32);
  EXPECT_GT(program->info.costs.at("flops"), 0);
  EXPECT_THAT(program->hlo_text, HasSubstr("all-reduce"));
}

TEST_F(CompilePipelineTest, TheResultLoadsOnAnotherClient) {
  const auto program = Compile(kSum, 4);
  ASSERT_TRUE(program.ok()) << program.status();
  auto client = plugin_->CreateClient({{"cpu_device_count", int64_t{2}}});
  ASSERT_TRUE(client.ok());
  const auto loaded = (*client)->DeserializeAndLoad(program->executable);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->num_outputs(), 1);
}

TEST_F(CompilePipelineTest, CompilesAProgramOfOnePartition) {
  const auto program = Compile(kDouble, 1);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(program->info.collectives.empty());
  EXPECT_THAT(program->info.donatable_parameters, ElementsAre(0));
  EXPECT_THAT(program->info.results[0].shard_shape.dims, ElementsAre(3));
  EXPECT_FALSE(program->executable.empty());
}

TEST_F(CompilePipelineTest, CompilesEveryCallThatWorkersHave) {
  for (const std::string& target : NativeTargets()) {
    const auto program = Compile(CallOf(target), 1);
    EXPECT_TRUE(program.ok()) << target << ": " << program.status();
  }
}

TEST_F(CompilePipelineTest, RefusesCustomCallsOffTheList) {
  const auto unknown = Compile(CallOf("launch_missiles"), 1);
  EXPECT_FALSE(unknown.ok());
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("launch_missiles"));
  const auto ours = Compile(CallOf("switchtower.all_reduce"), 1);
  EXPECT_FALSE(ours.ok());
  EXPECT_THAT(std::string(ours.status().message()), HasSubstr("switchtower.all_reduce"));
}

TEST_F(CompilePipelineTest, RefusesWhatIsNoProgram) {
  EXPECT_FALSE(Compile("not a module", 1).ok());
  EXPECT_FALSE(Compile("", 4).ok());
  // A failure leaves the next compile of the same thread alone.
  EXPECT_TRUE(Compile(kSum, 4).ok());
}

}  // namespace
}  // namespace switchtower
