#include "worker/engine/pjrt_engine.h"

#include <utility>

#include <fmt/core.h>

#include "base/log.h"
#include "base/status_macros.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin.h"
#include "worker/engine/device_probe.h"
#include "worker/engine/host_layout.h"
#include "worker/engine/pjrt_buffer.h"

namespace switchtower {
namespace {

// Serialised xla.CompileOptionsProto {executable_build_options {device_ordinal: -1, num_replicas: 1,
// num_partitions: 1}, compile_portable_executable: true}: it overrides what a program was compiled with, so that
// it runs on any device.
std::string PortableOptions() {
  std::string build("\x08", 1);
  build.append(9, '\xff');
  build += "\x01\x20\x01\x28\x01";
  return std::string("\x1a", 1) + static_cast<char>(build.size()) + build + "\x20\x01";
}

absl::Status Annotate(const absl::Status& status, const std::string& what) {
  return absl::Status(status.code(), fmt::format("{}: {}", what, std::string(status.message())));
}

class StoreAdapter : public pjrt::KeyValueStore {
 public:
  explicit StoreAdapter(EngineKeyValueStore& store) : store_(store) {}
  absl::StatusOr<std::string> Get(const std::string& key, int timeout_ms) override {
    return store_.Get(key, timeout_ms);
  }
  absl::Status Put(const std::string& key, const std::string& value) override { return store_.Put(key, value); }

 private:
  EngineKeyValueStore& store_;
};

bool Names(const absl::Status& status, std::string_view word) {
  return std::string_view(status.message().data(), status.message().size()).find(word) != std::string_view::npos;
}

// A CPU client stands alone in its process and is told how many devices to make; that it doesn't know the
// option is how other platforms are told apart, which know their devices and their place in the slice.
//
// Its programs shall run on the thread that calls Execute (DeviceQueue has one for each device): on a thread of the
// client's own pool they would keep copies from it, for which a peer may be waiting.
absl::StatusOr<std::shared_ptr<pjrt::Client>> CreateClient(pjrt::Plugin& plugin, const EngineOptions& options) {
  pjrt::NamedValues cpu{{"cpu_device_count", int64_t{options.device_count}}, {"asynchronous", false}};
  auto client = plugin.CreateClient(cpu);
  if (!client.ok() && Names(client.status(), "asynchronous")) {
    cpu.erase("asynchronous");
    client = plugin.CreateClient(cpu);
  }
  if (client.ok() || !Names(client.status(), "cpu_device_count")) return client;
  pjrt::NamedValues values;
  std::shared_ptr<pjrt::KeyValueStore> store;
  if (options.slice.process_count > 1) {
    if (options.slice.store == nullptr) {
      return absl::InvalidArgumentError("a slice of several processes needs a key-value store");
    }
    values["node_id"] = int64_t{options.slice.process_index};
    values["num_nodes"] = int64_t{options.slice.process_count};
    store = std::make_shared<StoreAdapter>(*options.slice.store);
  }
  return plugin.CreateClient(values, std::move(store));
}

class PjrtEngine : public Engine {
 public:
  PjrtEngine(std::shared_ptr<pjrt::Client> client, DeviceType type, int32_t device_count,
             EngineCapabilities capabilities)
      : client_(std::move(client)), type_(std::move(type)), device_count_(device_count), capabilities_(capabilities) {}

  const EngineCapabilities& capabilities() const override { return capabilities_; }
  const DeviceType& device_type() const override { return type_; }
  int32_t device_count() const override { return device_count_; }
  std::string DeviceName(int32_t device) const override { return Device(device).to_string; }

  absl::StatusOr<MemoryUse> GetMemoryUse(int32_t device) const override {
    RETURN_IF_ERROR(CheckDevice(device));
    ASSIGN_OR_RETURN(const pjrt::DeviceMemoryStats stats, client_->MemoryStats(Device(device)));
    return MemoryUse{stats.bytes_in_use, stats.peak_bytes_in_use, stats.bytes_limit};
  }

  absl::StatusOr<EngineProgramPtr> LoadProgram(std::string_view executable) override {
    auto loaded = client_->DeserializeAndLoad(executable, PortableOptions());
    if (absl::IsInternal(loaded.status())) {  // which would read as a lost slice, to be tried again elsewhere
      return absl::FailedPreconditionError(
          fmt::format("loading a program: {}", std::string(loaded.status().message())));
    }
    if (!loaded.ok()) return Annotate(loaded.status(), "loading a program");
    ASSIGN_OR_RETURN(const pjrt::Executable description, loaded->GetExecutable());
    ASSIGN_OR_RETURN(std::string name, description.Name());
    return EngineProgramPtr(std::make_shared<PjrtProgram>(*std::move(loaded), std::move(name)));
  }

  absl::StatusOr<std::vector<EngineBufferPtr>> Execute(const EngineExecution& execution, StatusCallback done) override {
    StatusCallback once = std::move(done);
    auto result = Launch(execution, once);
    if (!result.ok() && once != nullptr) once(result.status());
    return result;
  }

  absl::StatusOr<EngineBufferPtr> FromHost(int32_t device, const std::string& memory_kind, const HostData& host,
                                           const std::optional<Layout>& layout) override {
    // Plug-ins take the address of nothing for a missing one.
    static constexpr char kNowhere = 0;
    RETURN_IF_ERROR(ValidateShape(host.shape));
    ASSIGN_OR_RETURN(const pjrt::Memory* memory, FindMemory(device, memory_kind));
    const pjrt::HostBuffer source{
        .data = host.data == nullptr ? &kNowhere : host.data, .shape = host.shape, .byte_strides = host.byte_strides};
    // A layout given means "exactly this one" to the plug-in, which adds a bit width to those of sub-byte types.
    const bool is_default = !layout || layout->IsDefault();
    auto made = client_->BufferFromHost(source, *memory, is_default ? std::nullopt : layout);
    if (!made.ok()) return Annotate(made.status(), fmt::format("putting {}", host.shape.ToString()));
    made->second.OnReady([owner = host.owner](absl::Status) {});
    return Wrap(std::move(made->first), device);
  }

  void ToHost(const EngineBufferPtr& buffer, void* destination, int64_t size, const std::optional<Layout>& layout,
              StatusCallback done) override {
    const Shape& shape = buffer->shape();
    if (size != shape.host_bytes()) {
      return done(absl::InvalidArgumentError(
          fmt::format("{} bytes for {}, which has {}", size, shape.ToString(), shape.host_bytes())));
    }
    auto event = AsPjrt(buffer).pjrt_buffer().ToHost(destination, size, layout);
    if (!event.ok()) return done(event.status());
    event->OnReady([buffer, destination, size, done = std::move(done)](absl::Status status) mutable {
      const DType dtype = buffer->shape().dtype;
      if (status.ok() && IsSubByte(dtype)) NormalizeElements(dtype, static_cast<char*>(destination), size);
      done(std::move(status));
    });
  }

  absl::StatusOr<EngineBufferPtr> CopyToMemory(const EngineBufferPtr& buffer, const std::string& memory_kind) override {
    return CopyToDevice(buffer, buffer->device(), memory_kind);
  }

  absl::StatusOr<EngineBufferPtr> CopyToDevice(const EngineBufferPtr& buffer, int32_t device,
                                               const std::string& memory_kind) override {
    ASSIGN_OR_RETURN(const pjrt::Memory* memory, FindMemory(device, memory_kind));
    ASSIGN_OR_RETURN(pjrt::Buffer copy, AsPjrt(buffer).pjrt_buffer().CopyToMemory(*memory));
    return Wrap(std::move(copy), device);
  }

  absl::StatusOr<int64_t> RegisterFfiType(const std::string& name) override {
    return client_->plugin().RegisterFfiType(name);
  }

  absl::Status RegisterFfiHandler(const std::string& target, void* handler) override {
    return client_->plugin().RegisterFfiHandler(target, type_.platform, handler);
  }

 private:
  static PjrtEngineBuffer& AsPjrt(const EngineBufferPtr& buffer) { return static_cast<PjrtEngineBuffer&>(*buffer); }

  const pjrt::Device& Device(int32_t device) const { return client_->devices()[static_cast<size_t>(device)]; }

  absl::Status CheckDevice(int32_t device) const {
    if (device >= 0 && device < device_count_) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("no device {}, there are {}", device, device_count_));
  }

  absl::StatusOr<const pjrt::Memory*> FindMemory(int32_t device, const std::string& kind) const {
    RETURN_IF_ERROR(CheckDevice(device));
    const pjrt::Memory* memory = Device(device).FindMemory(kind);
    if (memory == nullptr) {
      return absl::InvalidArgumentError(fmt::format("device {} has no memory of kind {}", device, kind));
    }
    return memory;
  }

  absl::StatusOr<EngineBufferPtr> Wrap(pjrt::Buffer buffer, int32_t device) const {
    ASSIGN_OR_RETURN(auto description, DescribeBuffer(buffer));
    return EngineBufferPtr(std::make_shared<PjrtEngineBuffer>(std::move(buffer), device, std::move(description),
                                                              capabilities_.host_readable));
  }

  // Takes `done` where the completion event will call it; leaves it where the caller has to.
  absl::StatusOr<std::vector<EngineBufferPtr>> Launch(const EngineExecution& execution, StatusCallback& done) {
    RETURN_IF_ERROR(CheckDevice(execution.device));
    const auto program = std::static_pointer_cast<const PjrtProgram>(execution.program);
    ASSIGN_OR_RETURN(pjrt::ExecuteContext made, client_->CreateExecuteContext());
    auto context = std::make_unique<pjrt::ExecuteContext>(std::move(made));
    if (execution.user_data.type_id != 0) {
      RETURN_IF_ERROR(context->AddUserData(execution.user_data.type_id, execution.user_data.data));
    }
    pjrt::ExecuteRequest request;
    request.device = &Device(execution.device);
    request.arguments.reserve(execution.arguments.size());
    for (const EngineBufferPtr& argument : execution.arguments) {
      request.arguments.push_back(&AsPjrt(argument).pjrt_buffer());
    }
    request.non_donatable_inputs = execution.non_donatable;
    request.launch_id = execution.launch_number;
    request.context = context.get();
    ASSIGN_OR_RETURN(pjrt::ExecuteResult result, program->executable().Execute(request));
    // From here on the program runs: handlers may use the context, and the code, until the event.
    result.completion.OnReady([context = std::move(context), program, done = std::exchange(done, nullptr)](
                                  absl::Status status) mutable { done(std::move(status)); });
    ASSIGN_OR_RETURN(const auto descriptions, program->Describe(result.outputs));
    std::vector<EngineBufferPtr> outputs;
    outputs.reserve(result.outputs.size());
    for (size_t i = 0; i < result.outputs.size(); ++i) {
      outputs.push_back(std::make_shared<PjrtEngineBuffer>(std::move(result.outputs[i]), execution.device,
                                                           descriptions[i], capabilities_.host_readable));
    }
    return outputs;
  }

  const std::shared_ptr<pjrt::Client> client_;
  const DeviceType type_;
  const int32_t device_count_;
  const EngineCapabilities capabilities_;
};

// Tries what the plug-in can do on its first device.
absl::StatusOr<EngineCapabilities> ProbeCapabilities(pjrt::Client& client) {
  const pjrt::Device& device = client.devices()[0];
  if (device.default_memory == nullptr) {
    return absl::FailedPreconditionError(fmt::format("device {} has no default memory", device.to_string));
  }
  const float zero = 0;
  const pjrt::HostBuffer scalar{
      .data = &zero, .shape = {DType::kF32, {}}, .semantics = pjrt::HostBufferSemantics::kImmutableOnlyDuringCall};
  ASSIGN_OR_RETURN(const auto buffer, client.BufferFromHost(scalar, *device.default_memory));
  return EngineCapabilities{.host_readable = buffer.first.IsOnCpu()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> CreatePjrtEngine(const EngineOptions& options) {
  ASSIGN_OR_RETURN(pjrt::Plugin * plugin, pjrt::Plugin::Load(options.plugin_path));
  auto client = CreateClient(*plugin, options);
  if (!client.ok()) {
    return Annotate(client.status(), fmt::format("making a client of plug-in {}", plugin->path()));
  }
  ASSIGN_OR_RETURN(DeviceType type, ProbeDeviceType(**client));
  const int32_t found = static_cast<int32_t>((*client)->devices().size());
  const int32_t count = options.device_count == 0 ? found : options.device_count;
  if (count > found) {
    return absl::FailedPreconditionError(fmt::format("{} devices are wanted, the plug-in finds {}", count, found));
  }
  ASSIGN_OR_RETURN(const EngineCapabilities capabilities, ProbeCapabilities(**client));
  LogInfo("engine {} with {} devices of kind {}, {}", type.platform, count, type.device_kind, type.instruction_set);
  return std::unique_ptr<Engine>(
      std::make_unique<PjrtEngine>(*std::move(client), std::move(type), count, capabilities));
}

}  // namespace switchtower
