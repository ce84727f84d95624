// The wrapper against a real CPU plug-in. Tests that need one are skipped where the build found none.
#include <complex>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin.h"

namespace switchtower::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Serialised xla.CompileOptionsProto: executable_build_options {device_ordinal: -1, num_replicas: 1,
// num_partitions: 1}, compile_portable_executable: true.
const std::string kPortableOptions =
    std::string("\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01\x20\x01", 19);

// The same with run_backend_only: for modules that are optimised already.
const std::string kBackendOptions =
    std::string("\x1a\x11\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01\x58\x01\x20\x01", 21);

constexpr char kAddProgram[] = R"(
module @adder {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
    %sum = stablehlo.add %a, %b : tensor<4xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    return %sum, %one : tensor<4xf32>, tensor<f32>
  }
})";

thread_local bool t_capture = false;
thread_local std::string t_captured;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(PluginTest, ReportsAMissingFile) {
  const auto plugin = Plugin::Load("/nowhere/plugin.so");
  EXPECT_EQ(plugin.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(plugin.status()), HasSubstr("/nowhere/plugin.so can't be found"));
}

TEST(PluginTest, RefusesAnOlderApi) {
  auto plugin = Plugin::Load(OUTDATED_PLUGIN);
  ASSERT_EQ(plugin.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plugin.status().message()), HasSubstr("or a later 0.x is needed"));
}

TEST(PluginTest, ReportsAFileThatIsNoLibrary) {
  const auto plugin = Plugin::Load("/proc/self/status");
  EXPECT_EQ(plugin.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(plugin.status()), HasSubstr("can't be loaded"));
}

class PjrtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = SWITCHTOWER_PJRT_PLUGIN;
    if (path.empty() || !std::filesystem::exists(path)) GTEST_SKIP() << "no plug-in";
    auto plugin = Plugin::Load(path);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    plugin_ = *plugin;
    auto client = plugin_->CreateClient({{"cpu_device_count", int64_t{2}}});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *client;
  }

  Buffer Put(const Shape& shape, const void* data, int device, std::optional<Layout> layout = std::nullopt) {
    HostBuffer host{.data = data, .shape = shape, .semantics = HostBufferSemantics::kImmutableOnlyDuringCall};
    auto made = client_->BufferFromHost(host, *client_->devices()[device].default_memory, layout);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(made->first);
  }

  std::vector<float> GetFloats(const Buffer& buffer) {
    std::vector<float> values(buffer.HostBytes().value() / sizeof(float));
    auto event = buffer.ToHost(values.data(), values.size() * sizeof(float));
    EXPECT_TRUE(event.ok()) << event.status();
    const absl::Status done = event->Await();
    EXPECT_TRUE(done.ok()) << done;
    return values;
  }

  Plugin* plugin_ = nullptr;
  std::shared_ptr<Client> client_;
};

TEST_F(PjrtTest, LoadsAPluginOnce) {
  const auto again = Plugin::Load(plugin_->path());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, plugin_);
  EXPECT_EQ(plugin_->api_major(), 0);
  EXPECT_GE(plugin_->api_minor(), 72);
  EXPECT_TRUE(plugin_->has_ffi());
}

TEST_F(PjrtTest, DescribesItsDevices) {
  EXPECT_EQ(client_->platform_name(), "cpu");
  EXPECT_FALSE(client_->platform_version().empty());
  ASSERT_EQ(client_->devices().size(), 2u);
  const Device& device = client_->devices()[1];
  EXPECT_EQ(device.id, 1);
  EXPECT_EQ(device.kind, "cpu");
  ASSERT_NE(device.default_memory, nullptr);
  EXPECT_EQ(device.default_memory, device.FindMemory(""));
  EXPECT_NE(device.FindMemory("unpinned_host"), nullptr);
  EXPECT_EQ(device.FindMemory("no such kind"), nullptr);
}

TEST_F(PjrtTest, CreateReportsTheError) {
  const auto client = plugin_->CreateClient({{"no_such_option", int64_t{1}}});
  EXPECT_FALSE(client.ok());
  EXPECT_THAT(Message(client.status()), HasSubstr("no_such_option"));
}

TEST_F(PjrtTest, CompilesSerializesLoadsAndRunsOnEachDevice) {
  auto compiled = client_->Compile(kAddProgram, "mlir", kPortableOptions);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto executable = compiled->GetExecutable();
  ASSERT_TRUE(executable.ok());
  EXPECT_EQ(executable->Name().value(), "adder");
  EXPECT_EQ(executable->NumPartitions().value(), 1);
  const auto outputs = executable->Outputs();
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 2u);
  EXPECT_EQ(outputs->at(0).shape, (Shape{DType::kF32, {4}}));
  EXPECT_EQ(outputs->at(1).shape, (Shape{DType::kF32, {}}));
  const auto stats = executable->GetMemoryStats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->arguments, 32);
  // The CPU plug-in has none; others give numbers.
  const auto costs = executable->CostAnalysis();
  EXPECT_TRUE(costs.ok() || costs.status().code() == absl::StatusCode::kUnimplemented) << costs.status();
  const auto program = executable->OptimizedProgram();
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->second, HasSubstr("adder"));

  const auto bytes = executable->Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto loaded = client_->DeserializeAndLoad(*bytes, kPortableOptions);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40};
  const Shape shape{DType::kF32, {4}};
  for (int device = 0; device < 2; ++device) {
    const Buffer x = Put(shape, a, device), y = Put(shape, b, device);
    auto result = loaded->Execute({.device = &client_->devices()[device], .arguments = {&x, &y}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->completion.Await().ok());
    ASSERT_EQ(result->outputs.size(), 2u);
    EXPECT_THAT(GetFloats(result->outputs[0]), ElementsAre(11, 22, 33, 44));
    EXPECT_THAT(GetFloats(result->outputs[1]), ElementsAre(1));
    EXPECT_EQ(result->outputs[0].GetDevice().value(), &client_->devices()[device]);
  }
}

TEST_F(PjrtTest, CompileErrorsKeepTheMessage) {
  const auto compiled = client_->Compile("module { nonsense }", "mlir", kPortableOptions);
  EXPECT_FALSE(compiled.ok());
  EXPECT_FALSE(Message(compiled.status()).empty());
  const auto loaded = client_->DeserializeAndLoad("not an executable");
  EXPECT_FALSE(loaded.ok());
}

TEST_F(PjrtTest, LayoutsOnDeviceAndHost) {
  const Shape shape{DType::kF32, {2, 3}};
  const float values[] = {0, 1, 2, 3, 4, 5};
  const Layout column_major{{0, 1}};
  const Buffer buffer = Put(shape, values, 0, column_major);
  EXPECT_EQ(buffer.GetShape().value(), shape);
  EXPECT_EQ(buffer.GetLayout().value(), column_major);
  EXPECT_EQ(buffer.OnDeviceBytes().value(), 24);
  EXPECT_THAT(GetFloats(buffer), ElementsAre(0, 1, 2, 3, 4, 5));
  std::vector<float> transposed(6);
  ASSERT_TRUE(buffer.ToHost(transposed.data(), 24, column_major)->Await().ok());
  EXPECT_THAT(transposed, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_FALSE(buffer.ToHost(transposed.data(), 20).ok());
}

TEST_F(PjrtTest, DeleteFreesAndKeepsTheObject) {
  const float value = 7;
  Buffer buffer = Put({DType::kF32, {}}, &value, 0);
  EXPECT_FALSE(buffer.IsDeleted());
  ASSERT_TRUE(buffer.Delete().ok());
  EXPECT_TRUE(buffer.IsDeleted());
  EXPECT_EQ(buffer.GetShape().value(), (Shape{DType::kF32, {}}));
  float out = 0;
  // The error comes at once or with the event.
  const auto event = buffer.ToHost(&out, sizeof(out));
  EXPECT_FALSE(event.ok() && event->Await().ok());
}

TEST_F(PjrtTest, CopiesBetweenDevicesAndMemories) {
  const float values[] = {1, 2};
  const Buffer buffer = Put({DType::kF32, {2}}, values, 0);
  auto other = buffer.CopyToDevice(client_->devices()[1]);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->GetDevice().value(), &client_->devices()[1]);
  EXPECT_THAT(GetFloats(*other), ElementsAre(1, 2));
  auto host = buffer.CopyToMemory(*client_->devices()[0].FindMemory("unpinned_host"));
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(host->GetMemory().value()->kind, "unpinned_host");
  EXPECT_THAT(GetFloats(*host), ElementsAre(1, 2));
}

TEST_F(PjrtTest, BuffersOutliveTheirClientHandle) {
  const float value = 3;
  const Buffer buffer = Put({DType::kF32, {}}, &value, 0);
  client_.reset();
  EXPECT_THAT(GetFloats(buffer), ElementsAre(3));
}

TEST_F(PjrtTest, EventCallbackRunsOnce) {
  const float value = 3;
  const Buffer buffer = Put({DType::kF32, {}}, &value, 0);
  int calls = 0;
  {
    auto event = buffer.ReadyEvent();
    ASSERT_TRUE(event.ok());
    ASSERT_TRUE(event->Await().ok());
    event->OnReady([&calls](absl::Status status) {
      EXPECT_TRUE(status.ok());
      ++calls;
    });
  }
  EXPECT_EQ(calls, 1);
  Event none;
  none.OnReady([&calls](absl::Status) { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(none.IsReady());
}

TEST_F(PjrtTest, TransformCapturesTheModuleOfThisThreadsCompile) {
  if (!plugin_->has_transform()) GTEST_SKIP() << "no XlaTransform extension";
  const absl::Status registered =
      plugin_->RegisterTransform("pjrt_test", TransformStage::kPostScheduler,
                                 [](std::string_view module) -> absl::StatusOr<std::optional<std::string>> {
                                   if (!t_capture) return std::nullopt;
                                   t_captured = std::string(module);
                                   return absl::AbortedError("captured by the test");
                                 });
  ASSERT_TRUE(registered.ok()) << registered;
  t_capture = true;
  const auto captured = client_->Compile(kAddProgram, "mlir", kPortableOptions);
  t_capture = false;
  EXPECT_FALSE(captured.ok());
  EXPECT_THAT(Message(captured.status()), HasSubstr("captured by the test"));
  EXPECT_THAT(t_captured, HasSubstr("adder"));
  // What was captured compiles as an HLO proto, by the backend alone: the whole pipeline would abort on it.
  auto compiled = client_->Compile(t_captured, "hlo", kBackendOptions);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
}

}  // namespace
}  // namespace switchtower::pjrt
