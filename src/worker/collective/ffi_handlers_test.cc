// Programs with the custom calls of lowered collectives on a real plug-in: two engines of two devices each, as two
// worker processes would have them.
#include "worker/collective/ffi_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "worker/collective/testing_cluster.h"
#include "worker/engine/testing_engine.h"

namespace switchtower {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
const Shape kFour{DType::kF32, {4}};

// ten times: x = sum of x over all ranks / 4 + x; then a gather and the rank.
constexpr char kLoop[] = R"(
module @loop {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<ui32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %quarter = stablehlo.constant dense<0.25> : tensor<4xf32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
     cond {
      %go = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %sum = stablehlo.custom_call @switchtower.all_reduce(%v) {api_version = 4 : i32, backend_config = {
          op_id = 1 : i64, kind = 0 : i64, groups = array<i64: 0, 1, 2, 3>, group_offsets = array<i64: 0, 4>}}
          : (tensor<4xf32>) -> tensor<4xf32>
      %mean = stablehlo.multiply %sum, %quarter : tensor<4xf32>
      %next = stablehlo.add %mean, %v : tensor<4xf32>
      %inc = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %inc, %next : tensor<i32>, tensor<4xf32>
    }
    %all = stablehlo.custom_call @switchtower.all_gather(%r#1) {api_version = 4 : i32, backend_config = {
        op_id = 2 : i64, outer = array<i64: 1>, chunk_bytes = array<i64: 16>, groups = array<i64: 2, 0, 1, 3>,
        group_offsets = array<i64: 0, 2, 4>}} : (tensor<4xf32>) -> tensor<8xf32>
    %rank = stablehlo.custom_call @switchtower.partition_id() {api_version = 4 : i32, backend_config = {}}
        : () -> tensor<ui32>
    return %r#1, %all, %rank : tensor<4xf32>, tensor<8xf32>, tensor<ui32>
  }
})";

std::string CallProgram(const std::string& target, const std::string& attributes) {
  return R"(module @call {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %r = stablehlo.custom_call @)" +
         target + "(%x) {api_version = 4 : i32, backend_config = {" + attributes + R"(}}
        : (tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
})";
}

class FfiHandlersTest : public PjrtEngineTest {
 protected:
  void SetUp() override {
    PjrtEngineTest::SetUp();
    if (HasFatalFailure()) return;
    engines_[0] = std::move(engine_);
    PjrtEngineTest::SetUp();  // the second process's
    if (HasFatalFailure()) return;
    engines_[1] = std::move(engine_);
    for (auto& engine : engines_) {
      const auto type = RegisterCollectives(*engine);
      ASSERT_TRUE(type.ok()) << type.status();
      options_.user_data_type = *type;
    }
    cluster_ = std::make_unique<TestCluster>(std::vector<int>{0, 0, 1, 1}, options_);
  }

  struct Outcome {
    std::unique_ptr<LaunchContext> context;
    absl::StatusOr<std::vector<EngineBufferPtr>> outputs = absl::UnknownError("not run");
    absl::Status completion;
  };

  // Runs `mlir` as `launch` on the ranks given, each with a thread of its own; `meanwhile` runs beside them.
  std::vector<Outcome> RunRanks(
      const std::string& mlir, LaunchId launch, const std::vector<int>& ranks,
      const std::function<void()>& meanwhile = [] {}) {
    std::vector<EngineProgramPtr> programs;
    for (auto& engine : engines_) {
      engine_.swap(engine);
      auto program = CompileAndLoad(mlir);
      engine_.swap(engine);
      EXPECT_TRUE(program.ok()) << program.status();
      if (!program.ok()) return {};
      programs.push_back(*program);
    }
    cluster_->Begin(launch);
    std::vector<Outcome> outcomes(kRanks);
    std::vector<std::thread> threads;
    for (int rank : ranks) {
      threads.emplace_back([&, rank] {
        TestCluster::Process& process = cluster_->of(rank);
        Engine& engine = *engines_[rank / 2];
        Outcome& outcome = outcomes[rank];
        outcome.context = std::make_unique<LaunchContext>(launch, rank, process.gang, process.engine.get());
        const auto value = static_cast<float>(rank);
        auto data = std::make_shared<std::vector<float>>(4, value);
        auto input = engine.FromHost(rank % 2, "", {.data = data->data(), .owner = data, .shape = kFour});
        ASSERT_TRUE(input.ok()) << input.status();
        std::promise<absl::Status> done;
        outcome.outputs = engine.Execute({.device = rank % 2,
                                          .program = programs[rank / 2],
                                          .arguments = {*input},
                                          .user_data = {options_.user_data_type, outcome.context.get()}},
                                         [&done](absl::Status status) { done.set_value(std::move(status)); });
        outcome.completion = done.get_future().get();
      });
    }
    meanwhile();
    for (auto& thread : threads) thread.join();
    cluster_->End(launch);
    return outcomes;
  }

  template <typename T>
  std::vector<T> Values(int rank, const EngineBufferPtr& buffer) {
    engine_.swap(engines_[rank / 2]);
    auto values = Get<T>(buffer);
    engine_.swap(engines_[rank / 2]);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : std::vector<T>{};
  }

  ExchangeEngine::Options options_;
  std::unique_ptr<Engine> engines_[2];
  std::unique_ptr<TestCluster> cluster_;
};

TEST_F(FfiHandlersTest, LoopGatherAndRank) {
  std::vector<float> expected = {0, 1, 2, 3};
  for (int i = 0; i < 10; ++i) {
    const float mean = (expected[0] + expected[1] + expected[2] + expected[3]) * 0.25f;
    for (float& value : expected) value += mean;
  }
  for (uint64_t number = 1; number <= 5; ++number) {
    auto outcomes = RunRanks(kLoop, {1, number}, {0, 1, 2, 3});
    ASSERT_EQ(outcomes.size(), 4u);
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(outcomes[rank].outputs.ok()) << outcomes[rank].outputs.status();
      ASSERT_TRUE(outcomes[rank].completion.ok()) << outcomes[rank].completion;
      const auto& outputs = *outcomes[rank].outputs;
      EXPECT_THAT(Values<float>(rank, outputs[0]), Each(expected[rank]));
      // Groups {2, 0} and {1, 3}.
      const float first = rank % 2 == 0 ? expected[2] : expected[1];
      const float second = rank % 2 == 0 ? expected[0] : expected[3];
      EXPECT_THAT(Values<float>(rank, outputs[1]),
                  ElementsAre(first, first, first, first, second, second, second, second));
      EXPECT_THAT(Values<uint32_t>(rank, outputs[2]), ElementsAre(static_cast<uint32_t>(rank)));
    }
  }
  EXPECT_EQ(cluster_->of(0).engine->stats().operations, 5u * 2 * 10 + 5 * 2);
}

TEST_F(FfiHandlersTest, PermuteAndBroadcastGiveZerosToOthers) {
  const std::string permute = CallProgram("switchtower.collective_permute",
                                          "op_id = 1 : i64, sources = array<i64: 3, 2>, targets = "
                                          "array<i64: 2, 0>");
  auto outcomes = RunRanks(permute, {1, 1}, {0, 1, 2, 3});
  const std::vector<float> moved = {2, 0, 3, 0};
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(outcomes[rank].outputs.ok()) << outcomes[rank].outputs.status();
    EXPECT_THAT(Values<float>(rank, (*outcomes[rank].outputs)[0]), Each(moved[rank])) << rank;
  }
  const std::string broadcast = CallProgram("switchtower.collective_broadcast",
                                            "op_id = 1 : i64, groups = array<i64: 3, 0, 1>, "
                                            "group_offsets = array<i64: 0, 3>");
  outcomes = RunRanks(broadcast, {1, 2}, {0, 1, 2, 3});
  const std::vector<float> sent = {3, 3, 0, 3};
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(outcomes[rank].outputs.ok()) << outcomes[rank].outputs.status();
    EXPECT_THAT(Values<float>(rank, (*outcomes[rank].outputs)[0]), Each(sent[rank])) << rank;
  }
}

TEST_F(FfiHandlersTest, CancelFreesTheDevices) {
  const LaunchId launch{1, 1};
  const auto outcomes = RunRanks(kLoop, launch, {0, 1, 2}, [&] {
    while (cluster_->of(0).engine->Pending().empty()) std::this_thread::yield();
    for (auto& process : cluster_->processes()) {
      process.engine->CancelLaunch(launch, absl::DataLossError("rank 3 never came"));
    }
  });
  for (int rank : {0, 1, 2}) {
    EXPECT_EQ(outcomes[rank].completion.code(), absl::StatusCode::kDataLoss) << outcomes[rank].completion;
    EXPECT_THAT(std::string(outcomes[rank].completion.message()), HasSubstr("rank 3 never came"));
  }
  const auto again = RunRanks(kLoop, {1, 2}, {0, 1, 2, 3});
  for (const auto& outcome : again) EXPECT_TRUE(outcome.completion.ok()) << outcome.completion;
}

TEST_F(FfiHandlersTest, BadAttributesAreErrors) {
  const std::string good = "groups = array<i64: 0, 1, 2, 3>, group_offsets = array<i64: 0, 4>";
  const std::vector<std::pair<std::string, std::string>> programs = {
      {"switchtower.all_reduce", ""},
      {"switchtower.all_reduce", "op_id = 1 : i64, kind = 99 : i64, " + good},
      {"switchtower.all_reduce", "op_id = 1 : i64, kind = 4 : i64, " + good},  // and of floats
      {"switchtower.all_reduce", "op_id = -1 : i64, kind = 0 : i64, " + good},
      {"switchtower.all_reduce",
       "op_id = 1 : i64, kind = 0 : i64, groups = array<i64: 0, 77>, "
       "group_offsets = array<i64: 0, 2>"},
      {"switchtower.all_reduce",
       "op_id = 1 : i64, kind = 0 : i64, groups = array<i64: 0, 1>, "
       "group_offsets = array<i64: 0, 9>"},
      {"switchtower.all_reduce",
       "op_id = 1 : i64, kind = 0 : i64, groups = array<i64>, group_offsets = "
       "array<i64>"},
      {"switchtower.all_gather",
       "op_id = 1 : i64, outer = array<i64: 1>, chunk_bytes = array<i64: "
       "999>, " +
           good},
      {"switchtower.collective_permute", "op_id = 1 : i64, sources = array<i64: 1>, targets = array<i64>"},
      {"switchtower.ragged_all_to_all", "op_id = 1 : i64, row_bytes = 4 : i64, " + good},
  };
  uint64_t number = 0;
  for (const auto& [target, attributes] : programs) {
    const auto outcomes = RunRanks(CallProgram(target, attributes), {1, ++number}, {0});
    EXPECT_EQ(outcomes[0].completion.code() == absl::StatusCode::kInvalidArgument ||
                  outcomes[0].completion.code() == absl::StatusCode::kUnimplemented,
              true)
        << attributes << ": " << outcomes[0].completion;
  }
}

}  // namespace
}  // namespace switchtower
