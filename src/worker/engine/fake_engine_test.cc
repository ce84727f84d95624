#include "worker/engine/fake_engine.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::ElementsAre;

class FakeEngineTest : public ::testing::Test {
 protected:
  EngineBufferPtr Put(const std::vector<float>& values) {
    return engine_
        .FromHost(0, "", {.data = values.data(), .shape = {DType::kF32, {static_cast<int64_t>(values.size())}}},
                  std::nullopt)
        .value();
  }
  std::vector<float> Get(const EngineBufferPtr& buffer) {
    std::vector<float> values(static_cast<size_t>(buffer->shape().elements()));
    engine_.ToHost(buffer, values.data(), buffer->shape().host_bytes(), std::nullopt,
                   [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
    return values;
  }
  absl::StatusOr<std::vector<EngineBufferPtr>> Run(const std::string& name, std::vector<EngineBufferPtr> arguments) {
    return engine_.Execute({.program = engine_.LoadProgram(name).value(), .arguments = std::move(arguments)},
                           [this](absl::Status status) {
                             ++done_;
                             last_ = std::move(status);
                           });
  }

  FakeEngine engine_{2};
  int done_ = 0;
  absl::Status last_;
};

TEST_F(FakeEngineTest, RunsPrograms) {
  const auto a = Put({1, 2}), b = Put({10, 20});
  EXPECT_THAT(Get(Run("add_one", {a}).value()[0]), ElementsAre(2, 3));
  EXPECT_THAT(Get(Run("sum", {a, b}).value()[0]), ElementsAre(11, 22));
  EXPECT_EQ(done_, 2);
  EXPECT_THAT(engine_.executed(), ElementsAre("add_one", "sum"));
  EXPECT_FALSE(engine_.LoadProgram("nothing").ok());
}

TEST_F(FakeEngineTest, FailuresReachOutputsAndTheirUsers) {
  const auto failed = Run("fail", {});
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(last_.code(), absl::StatusCode::kInternal);
  const auto next = Run("identity", {(*failed)[0]});
  EXPECT_EQ(last_.code(), absl::StatusCode::kInternal);
  absl::Status ready;
  (*next)[0]->OnReady([&ready](absl::Status status) { ready = std::move(status); });
  EXPECT_EQ(ready.code(), absl::StatusCode::kInternal);
}

TEST_F(FakeEngineTest, HoldsUntilReleased) {
  engine_.Hold();
  const auto first = Run("add_one", {Put({1})}).value();
  const auto second = Run("add_one", first).value();
  bool ready = false;
  second[0]->OnReady([&ready](absl::Status) { ready = true; });
  EXPECT_FALSE(ready);
  EXPECT_EQ(done_, 0);
  engine_.Release();
  EXPECT_TRUE(ready);
  EXPECT_THAT(Get(second[0]), ElementsAre(3));
}

TEST_F(FakeEngineTest, DonationDeletes) {
  engine_.RegisterProgram("take", 1, {0}, [](const FakeCall& call) { return call.arguments; });
  const auto buffer = Put({5});
  const auto taken = Run("take", {buffer}).value();
  EXPECT_TRUE(buffer->IsDeleted());
  EXPECT_THAT(Get(taken[0]), ElementsAre(5));
}

TEST_F(FakeEngineTest, LayoutsAndStrides) {
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  const Layout column_major{{0, 1}};
  const auto buffer =
      engine_
          .FromHost(1, "", {.data = columns.data(), .shape = {DType::kF32, {2, 3}}, .byte_strides = {4, 8}},
                    column_major)
          .value();
  EXPECT_EQ(buffer->layout(), column_major);
  EXPECT_THAT(Get(buffer), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(memcmp(buffer->HostView()->data, columns.data(), 24), 0);
}

TEST_F(FakeEngineTest, CountsBuffers) {
  {
    const auto buffer = Put({1, 2, 3});
    EXPECT_EQ(engine_.live_buffers(), 1);
    EXPECT_EQ(engine_.GetMemoryUse(0)->in_use, 12);
  }
  EXPECT_EQ(engine_.live_buffers(), 0);
  EXPECT_EQ(engine_.GetMemoryUse(0)->in_use, 0);
}

}  // namespace
}  // namespace switchtower
