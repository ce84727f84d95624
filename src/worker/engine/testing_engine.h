// A PjrtEngine with two CPU devices, and shorthands, for this folder's tests.
//
// Place:    worker/engine; tests only.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin.h"
#include "worker/engine/pjrt_engine.h"

namespace switchtower {

class PjrtEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = CreatePjrtEngine({.plugin_path = SWITCHTOWER_PJRT_PLUGIN, .device_count = 2});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // Compiles with a client of its own, as the compiler process does, and loads the bytes.
  absl::StatusOr<EngineProgramPtr> CompileAndLoad(const std::string& mlir) {
    auto plugin = pjrt::Plugin::Load(SWITCHTOWER_PJRT_PLUGIN);
    if (!plugin.ok()) return plugin.status();
    auto client = (*plugin)->CreateClient({{"cpu_device_count", int64_t{1}}});
    if (!client.ok()) return client.status();
    // CompileOptionsProto: one replica, one partition, portable.
    const std::string options("\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01\x20\x01", 19);
    auto compiled = (*client)->Compile(mlir, "mlir", options);
    if (!compiled.ok()) return compiled.status();
    auto executable = compiled->GetExecutable();
    if (!executable.ok()) return executable.status();
    auto bytes = executable->Serialize();
    if (!bytes.ok()) return bytes.status();
    return engine_->LoadProgram(*bytes);
  }

  template <typename T>
  EngineBufferPtr Put(const Shape& shape, const std::vector<T>& values, int32_t device = 0,
                      const std::optional<Layout>& layout = std::nullopt, const std::string& kind = "") {
    auto owner = std::make_shared<std::vector<T>>(values);
    auto buffer = engine_->FromHost(device, kind, {.data = owner->data(), .owner = owner, .shape = shape}, layout);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *buffer : nullptr;
  }

  template <typename T>
  absl::StatusOr<std::vector<T>> Get(const EngineBufferPtr& buffer,
                                     const std::optional<Layout>& layout = std::nullopt) {
    std::vector<T> values(static_cast<size_t>(buffer->shape().host_bytes()) / sizeof(T));
    std::promise<absl::Status> done;
    engine_->ToHost(buffer, values.data(), buffer->shape().host_bytes(), layout,
                    [&done](absl::Status status) { done.set_value(std::move(status)); });
    const absl::Status status = done.get_future().get();
    if (!status.ok()) return status;
    return values;
  }

  // Runs, waits, and gives the outputs or the error, wherever it showed. `completion` gets what `done` was told.
  absl::StatusOr<std::vector<EngineBufferPtr>> Run(const EngineExecution& execution, absl::Status& completion) {
    std::promise<absl::Status> done;
    auto outputs = engine_->Execute(execution, [&done](absl::Status status) { done.set_value(std::move(status)); });
    completion = done.get_future().get();
    return outputs;
  }

  std::unique_ptr<Engine> engine_;
};

}  // namespace switchtower
