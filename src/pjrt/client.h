// A client of a plug-in: its devices and memories, and what is made on them.
//
// Place:    pjrt; made by Plugin::CreateClient.
// Threads:  any method from any thread.
// Lifetime: shared. Buffers, executables and contexts hold a reference, so a client ends after the last of
//           them. Device and Memory objects belong to their client.
// Errors:   the plug-in's code and message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pjrt/plugin.h"
#include "types/shape.h"

namespace switchtower::pjrt {

namespace abi {
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Memory;
}  // namespace abi

class Buffer;
class Event;
class ExecuteContext;
class LoadedExecutable;

// One memory space; several devices may share it.
struct Memory {
  abi::PJRT_Memory* handle = nullptr;
  int id = 0;
  std::string kind;  // "device", "pinned_host", "unpinned_host"
  std::string debug_string;
};

struct Device {
  abi::PJRT_Device* handle = nullptr;
  int id = 0;
  int process_index = 0;
  int local_hardware_id = 0;
  std::string kind;  // "cpu", "NVIDIA H100"
  std::string debug_string;
  std::string to_string;
  NamedValues attributes;
  std::vector<const Memory*> memories;
  const Memory* default_memory = nullptr;

  // Null if the device has none of that kind. An empty kind means the default memory.
  const Memory* FindMemory(std::string_view kind) const;
};

// What the plug-in does with host bytes that a buffer is made from.
enum class HostBufferSemantics {
  kImmutableOnlyDuringCall = 0,          // copied before the call returns
  kImmutableUntilTransferCompletes = 1,  // free them when the done event comes
  kImmutableZeroCopy = 2,                // used in place where possible, until the buffer dies
  kMutableZeroCopy = 3,                  // the same, and the plug-in may write to them
};

struct HostBuffer {
  const void* data = nullptr;
  Shape shape;
  // Bytes between neighbours of each dimension, in order of the dims. Empty: dense, row major.
  std::vector<int64_t> byte_strides;
  HostBufferSemantics semantics = HostBufferSemantics::kImmutableUntilTransferCompletes;
};

struct DeviceMemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use, bytes_limit, largest_alloc_size, num_allocs;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  Plugin& plugin() const { return plugin_; }
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  // Addressable devices, by position.
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<std::unique_ptr<Memory>>& memories() const { return memories_; }
  const Device* FindDevice(const abi::PJRT_Device* handle) const;
  const Memory* FindMemory(const abi::PJRT_Memory* handle) const;
  absl::StatusOr<DeviceMemoryStats> MemoryStats(const Device& device) const;

  // `format`: "mlir" (StableHLO text, bytecode or portable artifact) or "hlo" (serialised HloModuleProto).
  // `options`: serialised xla.CompileOptionsProto; modules that a transform captured need run_backend_only.
  // XLA aborts the process on some modules: compile in a process of its own.
  absl::StatusOr<LoadedExecutable> Compile(std::string_view program, const std::string& format,
                                           std::string_view options);
  // From Executable::Serialize. `overridden_options`, if not empty, replace the options inside.
  absl::StatusOr<LoadedExecutable> DeserializeAndLoad(std::string_view executable,
                                                      std::string_view overridden_options = {});

  // Second of the pair: the host bytes aren't read any more. `layout`, if given, is the one on the device.
  absl::StatusOr<std::pair<Buffer, Event>> BufferFromHost(const HostBuffer& host, const Memory& memory,
                                                          const std::optional<Layout>& layout = std::nullopt);

  absl::StatusOr<ExecuteContext> CreateExecuteContext();

  const abi::PJRT_Api* api() const { return plugin_.api(); }
  abi::PJRT_Client* handle() const { return client_; }

 private:
  friend class Plugin;
  static absl::StatusOr<std::shared_ptr<Client>> Create(Plugin& plugin, const NamedValues& options,
                                                        std::shared_ptr<KeyValueStore> store);
  Client(Plugin& plugin, abi::PJRT_Client* client, std::shared_ptr<KeyValueStore> store)
      : plugin_(plugin), client_(client), store_(std::move(store)) {}
  absl::Status ReadDescription();
  absl::Status ReadMemories();

  Plugin& plugin_;
  abi::PJRT_Client* const client_;
  const std::shared_ptr<KeyValueStore> store_;  // the plug-in's callbacks point to it
  std::string platform_name_;
  std::string platform_version_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<Memory>> memories_;
};

}  // namespace switchtower::pjrt
