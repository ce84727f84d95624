// An engine in host memory, for tests of the worker: no plug-in, no XLA.
//
// Place:    worker/engine; beside the interface.
// Threads:  as Engine says. Programs run on the caller's thread inside Execute, or when the test says so.
// Lifetime: as Engine says.
//
// Programs are C++ functions that the test registers under a name; LoadProgram takes that name as its bytes.
// "identity", "add_one" (every element of an integer or f32 array), "fail" (INTERNAL: fake program failed) and
// "sum" (adds all arguments elementwise) exist from the start.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "worker/engine/engine.h"

namespace switchtower {

// A value: dense, row major, sub-byte elements one byte each.
struct FakeValue {
  Shape shape;
  std::vector<char> bytes;
};

struct FakeCall {
  int32_t device = 0;
  std::vector<FakeValue> arguments;
  EngineUserData user_data;
};

using FakeFunction = std::function<absl::StatusOr<std::vector<FakeValue>>(const FakeCall& call)>;

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(int32_t device_count);
  ~FakeEngine() override;

  // `donated`: argument positions that the program takes over. `num_outputs` as the function returns.
  void RegisterProgram(const std::string& name, int64_t num_outputs, std::vector<int64_t> donated,
                       FakeFunction function) EXCLUDES(mutex_);

  // While held, Execute returns pending outputs at once and the work waits for Release, which runs it in order.
  void Hold() EXCLUDES(mutex_);
  void Release() EXCLUDES(mutex_);
  // Executions begun so far, by program name, in order.
  std::vector<std::string> executed() const EXCLUDES(mutex_);
  // Registered custom calls by target.
  void* FindHandler(const std::string& target) const EXCLUDES(mutex_);
  int64_t live_buffers() const;

  const EngineCapabilities& capabilities() const override { return capabilities_; }
  const DeviceType& device_type() const override { return type_; }
  int32_t device_count() const override { return device_count_; }
  std::string DeviceName(int32_t device) const override;
  absl::StatusOr<MemoryUse> GetMemoryUse(int32_t device) const override;
  absl::StatusOr<EngineProgramPtr> LoadProgram(std::string_view executable) override EXCLUDES(mutex_);
  absl::StatusOr<std::vector<EngineBufferPtr>> Execute(const EngineExecution& execution, StatusCallback done) override
      EXCLUDES(mutex_);
  absl::StatusOr<EngineBufferPtr> FromHost(int32_t device, const std::string& memory_kind, const HostData& host,
                                           const std::optional<Layout>& layout) override;
  void ToHost(const EngineBufferPtr& buffer, void* destination, int64_t size, const std::optional<Layout>& layout,
              StatusCallback done) override;
  absl::StatusOr<EngineBufferPtr> CopyToMemory(const EngineBufferPtr& buffer, const std::string& memory_kind) override;
  absl::StatusOr<EngineBufferPtr> CopyToDevice(const EngineBufferPtr& buffer, int32_t device,
                                               const std::string& memory_kind) override;
  absl::StatusOr<int64_t> RegisterFfiType(const std::string& name) override EXCLUDES(mutex_);
  absl::Status RegisterFfiHandler(const std::string& target, void* handler) override EXCLUDES(mutex_);

 private:
  struct Program;
  struct Usage;  // counters that buffers share and may outlive the engine

  const int32_t device_count_;
  const EngineCapabilities capabilities_;
  const DeviceType type_;
  const std::shared_ptr<Usage> usage_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Program>> programs_ GUARDED_BY(mutex_);
  std::vector<std::string> executed_ GUARDED_BY(mutex_);
  std::map<std::string, void*> handlers_ GUARDED_BY(mutex_);
  std::map<std::string, int64_t> types_ GUARDED_BY(mutex_);
  bool held_ GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> waiting_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
