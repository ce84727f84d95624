// Compiled programs: what they are (Executable) and the loaded form that runs (LoadedExecutable).
//
// Place:    pjrt; made by Client::Compile and Client::DeserializeAndLoad.
// Threads:  const methods from any thread, several executions of one program at once included.
// Lifetime: own the plug-in's objects and hold the client. A LoadedExecutable may be destroyed while
//           executions of it still run.
// Errors:   the plug-in's. A failed execution shows either as an error of Execute (then there are no outputs
//           and no event) or through the event and every output; donated inputs are gone in both cases.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/event.h"
#include "types/program.h"
#include "types/shape.h"

namespace switchtower::pjrt {

namespace abi {
struct PJRT_Executable;
struct PJRT_ExecuteContext;
struct PJRT_LoadedExecutable;
}  // namespace abi

// What FFI handlers of an execution find as user data. The caller owns the data and keeps it alive until the
// execution's completion event.
class ExecuteContext {
 public:
  ExecuteContext(std::shared_ptr<Client> client, abi::PJRT_ExecuteContext* context);
  ExecuteContext(ExecuteContext&& other) noexcept;
  ExecuteContext& operator=(ExecuteContext&& other) noexcept;
  ~ExecuteContext();

  // `type_id` from Plugin::RegisterFfiType. One piece of data for each type.
  absl::Status AddUserData(int64_t type_id, void* data);
  abi::PJRT_ExecuteContext* handle() const { return context_; }

 private:
  std::shared_ptr<Client> client_;
  abi::PJRT_ExecuteContext* context_ = nullptr;
};

struct ExecutableOutput {
  Shape shape;
  std::string memory_kind;
};

class Executable {
 public:
  Executable(std::shared_ptr<Client> client, abi::PJRT_Executable* executable);
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;
  ~Executable();

  absl::StatusOr<std::string> Name() const;
  absl::StatusOr<int64_t> NumReplicas() const;
  absl::StatusOr<int64_t> NumPartitions() const;
  absl::StatusOr<int64_t> NumOutputs() const;
  absl::StatusOr<std::vector<ExecutableOutput>> Outputs() const;
  absl::StatusOr<MemoryStats> GetMemoryStats() const;
  // Unimplemented by the CPU plug-in.
  absl::StatusOr<std::map<std::string, double>> CostAnalysis() const;
  absl::StatusOr<std::string> Fingerprint() const;
  // The optimised module: format ("hlo", "hlo_with_config", ...) and bytes.
  absl::StatusOr<std::pair<std::string, std::string>> OptimizedProgram() const;
  // Native code and all; only for plug-ins of the same build on the same kind of device and CPU.
  absl::StatusOr<std::string> Serialize() const;

 private:
  std::shared_ptr<Client> client_;
  abi::PJRT_Executable* executable_ = nullptr;
};

struct ExecuteRequest {
  const Device* device = nullptr;  // null only for executables that carry their device
  std::vector<const Buffer*> arguments;
  // Arguments that the program would take over but that must survive.
  std::vector<int64_t> non_donatable_inputs;
  int launch_id = 0;
  // Always give one where an FFI handler of the program asks for user data: without it the CPU plug-in crashes.
  const ExecuteContext* context = nullptr;
};

struct ExecuteResult {
  std::vector<Buffer> outputs;
  Event completion;
};

class LoadedExecutable {
 public:
  LoadedExecutable(std::shared_ptr<Client> client, abi::PJRT_LoadedExecutable* executable);
  LoadedExecutable(LoadedExecutable&& other) noexcept;
  LoadedExecutable& operator=(LoadedExecutable&& other) noexcept;
  ~LoadedExecutable();

  absl::StatusOr<Executable> GetExecutable() const;
  // Runs on one device. Programs that XLA thinks small run inside this call, so it can block for as long as a
  // collective of theirs does: one dispatch thread for each device.
  absl::StatusOr<ExecuteResult> Execute(const ExecuteRequest& request) const;
  int64_t num_outputs() const { return num_outputs_; }

 private:
  friend class Client;
  absl::Status ReadOutputCount();

  std::shared_ptr<Client> client_;
  abi::PJRT_LoadedExecutable* executable_ = nullptr;
  int64_t num_outputs_ = 0;
};

}  // namespace switchtower::pjrt
