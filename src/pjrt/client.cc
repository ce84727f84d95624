#include "pjrt/client.h"

#include <stddef.h>

#include <fmt/core.h>

#include "base/status_macros.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"

namespace switchtower::pjrt {

const Memory* Device::FindMemory(std::string_view kind) const {
  if (kind.empty()) return default_memory;
  for (const Memory* memory : memories) {
    if (memory->kind == kind) return memory;
  }
  return nullptr;
}

Client::~Client() {
  auto args = MakeArgs<abi::PJRT_Client_Destroy_Args>();
  args.client = client_;
  Call(api(), api()->PJRT_Client_Destroy, args).IgnoreError();
}

const Device* Client::FindDevice(const abi::PJRT_Device* handle) const {
  for (const Device& device : devices_) {
    if (device.handle == handle) return &device;
  }
  return nullptr;
}

const Memory* Client::FindMemory(const abi::PJRT_Memory* handle) const {
  for (const auto& memory : memories_) {
    if (memory->handle == handle) return memory.get();
  }
  return nullptr;
}

absl::StatusOr<DeviceMemoryStats> Client::MemoryStats(const Device& device) const {
  auto args = MakeArgs<abi::PJRT_Device_MemoryStats_Args>();
  args.device = device.handle;
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Device_MemoryStats, args));
  DeviceMemoryStats stats;
  stats.bytes_in_use = args.bytes_in_use;
  if (args.peak_bytes_in_use_is_set) stats.peak_bytes_in_use = args.peak_bytes_in_use;
  if (args.bytes_limit_is_set) stats.bytes_limit = args.bytes_limit;
  if (args.largest_alloc_size_is_set) stats.largest_alloc_size = args.largest_alloc_size;
  if (args.num_allocs_is_set) stats.num_allocs = args.num_allocs;
  return stats;
}

absl::StatusOr<LoadedExecutable> Client::Compile(std::string_view program, const std::string& format,
                                                 std::string_view options) {
  auto code = MakeArgs<abi::PJRT_Program>();
  code.code = const_cast<char*>(program.data());  // in only
  code.code_size = program.size();
  code.format = format.data();
  code.format_size = format.size();
  auto args = MakeArgs<abi::PJRT_Client_Compile_Args>();
  args.client = client_;
  args.program = &code;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Client_Compile, args));
  LoadedExecutable executable(shared_from_this(), args.executable);
  RETURN_IF_ERROR(executable.ReadOutputCount());
  return executable;
}

absl::StatusOr<LoadedExecutable> Client::DeserializeAndLoad(std::string_view bytes,
                                                            std::string_view overridden_options) {
  auto args = MakeArgs<abi::PJRT_Executable_DeserializeAndLoad_Args>();
  args.client = client_;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  if (!overridden_options.empty()) {
    args.overridden_serialized_compile_options = overridden_options.data();
    args.overridden_serialized_compile_options_size = overridden_options.size();
  }
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Executable_DeserializeAndLoad, args));
  LoadedExecutable executable(shared_from_this(), args.loaded_executable);
  RETURN_IF_ERROR(executable.ReadOutputCount());
  return executable;
}

absl::StatusOr<std::pair<Buffer, Event>> Client::BufferFromHost(const HostBuffer& host, const Memory& memory,
                                                                const std::optional<Layout>& layout) {
  ASSIGN_OR_RETURN(const abi::PJRT_Buffer_Type type, ToBufferType(host.shape.dtype));
  if (!host.byte_strides.empty() && host.byte_strides.size() != host.shape.dims.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} byte strides for an array of rank {}", host.byte_strides.size(), host.shape.rank()));
  }
  auto args = MakeArgs<abi::PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client_;
  args.data = host.data;
  args.type = type;
  args.dims = host.shape.dims.data();
  args.num_dims = host.shape.dims.size();
  if (!host.byte_strides.empty()) {
    args.byte_strides = host.byte_strides.data();
    args.num_byte_strides = host.byte_strides.size();
  }
  args.host_buffer_semantics = static_cast<int>(host.semantics);
  args.memory = memory.handle;
  abi::PJRT_Buffer_MemoryLayout device_layout;
  if (layout.has_value()) {
    device_layout = WriteLayout(*layout);
    args.device_layout = &device_layout;
  }
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Client_BufferFromHostBuffer, args));
  return std::make_pair(Buffer(shared_from_this(), args.buffer), Event(api(), args.done_with_host_buffer));
}

absl::StatusOr<ExecuteContext> Client::CreateExecuteContext() {
  auto args = MakeArgs<abi::PJRT_ExecuteContext_Create_Args>();
  RETURN_IF_ERROR(Call(api(), api()->PJRT_ExecuteContext_Create, args));
  return ExecuteContext(shared_from_this(), args.context);
}

}  // namespace switchtower::pjrt
