// Programs on PjrtEngine: load, run on each device, donation, FFI handlers, errors.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "types/token_array.h"
#include "worker/engine/testing_engine.h"
#include "xla/ffi/api/ffi.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace ffi = xla::ffi;

constexpr char kAdd[] = R"(
module @adder {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %sum = stablehlo.add %a, %b : tensor<4xf32>
    return %sum : tensor<4xf32>
  }
})";

constexpr char kDonate[] = R"(
module @donate {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %sum = stablehlo.add %a, %a : tensor<4xf32>
    return %sum : tensor<4xf32>
  }
})";

constexpr char kToken[] = R"(
module @token {
  func.func public @main() -> (!stablehlo.token, tensor<4xf32>) {
    %token = stablehlo.create_token : !stablehlo.token
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    return %token, %one : !stablehlo.token, tensor<4xf32>
  }
})";

// A custom call to `target` on one array of four.
std::string CallProgram(const std::string& target) {
  return R"(module @caller {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %r = stablehlo.custom_call @)" +
         target + R"((%a) {api_version = 4 : i32, backend_config = {}}
        : (tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
})";
}

struct Rank {
  static ffi::TypeId id;
  float value = 0;
  ffi::Error failure = ffi::Error::Success();
};
ffi::TypeId Rank::id = {};

// Adds the rank of this execution.
ffi::Error AddRank(Rank* rank, ffi::Buffer<ffi::F32> in, ffi::ResultBuffer<ffi::F32> out) {
  if (rank->failure.failure()) return rank->failure;
  for (size_t i = 0; i < in.element_count(); ++i) out->typed_data()[i] = in.typed_data()[i] + rank->value;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    kAddRank, AddRank,
    ffi::Ffi::Bind().Ctx<ffi::UserData<Rank>>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Fails from another thread, later.
ffi::Future FailLater(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>) {
  auto promise = std::make_shared<ffi::Promise>();
  ffi::Future future(*promise);
  std::thread([promise] {
    promise->SetError(ffi::Error(ffi::ErrorCode::kDataLoss, "peer lost in the test"));
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER(kFailLater, FailLater,
                       ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Completes when `g_open` is fulfilled: a collective that waits for its peers.
std::shared_future<void> g_open;
std::atomic<int> g_waiting{0};
ffi::Future Wait(ffi::Buffer<ffi::F32> in, ffi::ResultBuffer<ffi::F32> out) {
  auto promise = std::make_shared<ffi::Promise>();
  ffi::Future future(*promise);
  g_waiting.fetch_add(1);
  g_waiting.notify_all();
  std::copy_n(in.typed_data(), in.element_count(), out->typed_data());
  std::thread([promise, open = g_open] {
    open.wait();
    promise->SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER(kWait, Wait, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

const Shape kFour{DType::kF32, {4}};

class EngineExecuteTest : public PjrtEngineTest {
 protected:
  void SetUp() override {
    PjrtEngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto type = engine_->RegisterFfiType("switchtower.test.Rank");
    ASSERT_TRUE(type.ok()) << type.status();
    Rank::id.type_id = *type;
    ASSERT_TRUE(engine_->RegisterFfiHandler("st_test_add_rank", reinterpret_cast<void*>(kAddRank)).ok());
    ASSERT_TRUE(engine_->RegisterFfiHandler("st_test_fail_later", reinterpret_cast<void*>(kFailLater)).ok());
    ASSERT_TRUE(engine_->RegisterFfiHandler("st_test_wait", reinterpret_cast<void*>(kWait)).ok());
  }
};

TEST_F(PjrtEngineTest, ATokenIsAnEmptyArray) {
  auto program = CompileAndLoad(kToken);
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status completion;
  const auto outputs = Run({.program = *program}, completion);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 2u);
  EXPECT_EQ((*outputs)[0]->shape(), TokenArray());
  EXPECT_EQ((*outputs)[0]->bytes(), 0);
  EXPECT_THAT(Get<float>((*outputs)[1]).value(), ElementsAre(1, 1, 1, 1));
}

TEST_F(EngineExecuteTest, RunsOneProgramOnEachDevice) {
  const auto program = CompileAndLoad(kAdd);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->name(), "adder");
  EXPECT_EQ((*program)->num_outputs(), 1);
  for (int32_t device = 0; device < 2; ++device) {
    const auto a = Put<float>(kFour, {1, 2, 3, 4}, device), b = Put<float>(kFour, {10, 20, 30, 40}, device);
    absl::Status completion;
    const auto outputs = Run({.device = device, .program = *program, .arguments = {a, b}}, completion);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_TRUE(completion.ok());
    ASSERT_EQ(outputs->size(), 1u);
    EXPECT_EQ((*outputs)[0]->device(), device);
    EXPECT_EQ((*outputs)[0]->shape(), kFour);
    EXPECT_EQ((*outputs)[0]->layout(), Layout::Default(1));
    EXPECT_EQ((*outputs)[0]->memory_kind(), "device");
    EXPECT_EQ((*outputs)[0]->bytes(), 16);
    EXPECT_THAT(Get<float>((*outputs)[0]).value(), ElementsAre(11, 22, 33, 44));
    EXPECT_FALSE(a->IsDeleted());
  }
}

TEST_F(EngineExecuteTest, LoadReportsBadBytes) {
  for (const char* broken : {"garbage", ""}) {
    const absl::Status status = engine_->LoadProgram(broken).status();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;  // a lost slice's
  }
}

TEST_F(EngineExecuteTest, WrongArgumentsAreAnErrorOfBoth) {
  const auto program = CompileAndLoad(kAdd);
  ASSERT_TRUE(program.ok());
  absl::Status completion;
  const auto outputs = Run({.program = *program, .arguments = {Put<float>(kFour, {1, 2, 3, 4})}}, completion);
  EXPECT_FALSE(outputs.ok());
  EXPECT_EQ(outputs.status(), completion);
}

TEST_F(EngineExecuteTest, DonatesUnlessToldOtherwise) {
  const auto program = CompileAndLoad(kDonate);
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status completion;
  const auto kept = Put<float>(kFour, {1, 2, 3, 4});
  auto outputs = Run({.program = *program, .arguments = {kept}, .non_donatable = {0}}, completion);
  ASSERT_TRUE(outputs.ok());
  EXPECT_FALSE(kept->IsDeleted());
  EXPECT_THAT(Get<float>((*outputs)[0]).value(), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(Get<float>(kept).value(), ElementsAre(1, 2, 3, 4));

  const auto taken = Put<float>(kFour, {1, 2, 3, 4});
  outputs = Run({.program = *program, .arguments = {taken}}, completion);
  ASSERT_TRUE(outputs.ok());
  EXPECT_TRUE(taken->IsDeleted());
  EXPECT_THAT(Get<float>((*outputs)[0]).value(), ElementsAre(2, 4, 6, 8));
  // Using it again is an error, not a crash.
  EXPECT_FALSE(Run({.program = *program, .arguments = {taken}}, completion).ok() && completion.ok());
}

TEST_F(EngineExecuteTest, HandlersGetTheUserDataOfTheirExecution) {
  const auto program = CompileAndLoad(CallProgram("st_test_add_rank"));
  ASSERT_TRUE(program.ok()) << program.status();
  for (int32_t device = 0; device < 2; ++device) {
    Rank rank{.value = 100.0f * static_cast<float>(device + 1)};
    absl::Status completion;
    const auto outputs = Run({.device = device,
                              .program = *program,
                              .arguments = {Put<float>(kFour, {1, 2, 3, 4}, device)},
                              .user_data = {Rank::id.type_id, &rank}},
                             completion);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_THAT(Get<float>((*outputs)[0]).value(),
                ElementsAre(rank.value + 1, rank.value + 2, rank.value + 3, rank.value + 4));
  }
}

TEST_F(EngineExecuteTest, MissingUserDataIsAnErrorAndNoCrash) {
  const auto program = CompileAndLoad(CallProgram("st_test_add_rank"));
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status completion;
  Run({.program = *program, .arguments = {Put<float>(kFour, {1, 2, 3, 4})}}, completion).status().IgnoreError();
  EXPECT_FALSE(completion.ok());
}

TEST_F(EngineExecuteTest, ErrorsOfHandlersReachCompletionAndTheProgramRunsAgain) {
  const auto program = CompileAndLoad(CallProgram("st_test_add_rank"));
  ASSERT_TRUE(program.ok()) << program.status();
  Rank rank;
  rank.failure = ffi::Error(ffi::ErrorCode::kUnavailable, "no such peer");
  EngineExecution execution{
      .program = *program, .arguments = {Put<float>(kFour, {1, 2, 3, 4})}, .user_data = {Rank::id.type_id, &rank}};
  absl::Status completion;
  const auto failed = Run(execution, completion);
  EXPECT_EQ(completion.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(completion.message()), HasSubstr("no such peer"));
  EXPECT_FALSE(failed.ok() && Get<float>((*failed)[0]).ok());

  rank.failure = ffi::Error::Success();
  rank.value = 1;
  const auto again = Run(execution, completion);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(Get<float>((*again)[0]).value(), ElementsAre(2, 3, 4, 5));
}

TEST_F(EngineExecuteTest, LateErrorsOfHandlersReachCompletion) {
  const auto program = CompileAndLoad(CallProgram("st_test_fail_later"));
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status completion;
  Run({.program = *program, .arguments = {Put<float>(kFour, {1, 2, 3, 4})}}, completion).status().IgnoreError();
  EXPECT_EQ(completion.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(completion.message()), HasSubstr("peer lost in the test"));
}

// Peers may need a copy from a device whose program waits for them: copies must go on while all devices wait.
TEST_F(EngineExecuteTest, CopiesGoOnWhileEveryDeviceWaits) {
  // Enough work that XLA runs it on its pool and not inside Execute.
  const auto program = CompileAndLoad(R"(module @waiter {
  func.func public @main(%a: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %p = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
        : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %r = stablehlo.custom_call @st_test_wait(%p) {api_version = 4 : i32, backend_config = {}}
        : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
})");
  ASSERT_TRUE(program.ok()) << program.status();
  const int64_t count = 1 << 20;
  const Shape large{DType::kF32, {1024, count / 1024}};
  const std::vector<float> values(count, 2.0f);
  std::promise<void> open;
  g_open = open.get_future().share();
  g_waiting = 0;
  std::vector<std::thread> devices;
  for (int32_t device = 0; device < 2; ++device) {
    devices.emplace_back([this, device, &program] {
      absl::Status completion;
      const auto ones = Put<float>({DType::kF32, {32, 32}}, std::vector<float>(1024, 1.0f), device);
      const auto outputs = Run({.device = device, .program = *program, .arguments = {ones}}, completion);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ(Get<float>((*outputs)[0]).value().back(), 32.0f);
    });
  }
  for (int waiting = g_waiting; waiting < 2; waiting = g_waiting) g_waiting.wait(waiting);
  for (int32_t device = 0; device < 2; ++device) {
    const auto buffer = Put<float>(large, values, device, Layout{{0, 1}});
    EXPECT_EQ(Get<float>(buffer).value().back(), 2.0f);
    const auto copy = engine_->CopyToDevice(buffer, 1 - device, "");
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(Get<float>(*copy).value().front(), 2.0f);
  }
  open.set_value();
  for (std::thread& device : devices) device.join();
}

TEST_F(EngineExecuteTest, BuffersAndProgramsOutliveTheEngine) {
  const auto program = CompileAndLoad(kAdd);
  ASSERT_TRUE(program.ok());
  const auto buffer = Put<float>(kFour, {1, 2, 3, 4});
  ASSERT_TRUE(Get<float>(buffer).ok());
  engine_.reset();
  const auto view = buffer->HostView();
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(static_cast<const float*>(view->data)[3], 4);
}

}  // namespace
}  // namespace switchtower
