// The XLA FFI handlers behind the custom calls of lowered programs (hlo/collective_calls.h).
//
//   program --custom call--> handler: buffers and attributes -> MemberCall -->
//   ExchangeEngine::Join
//
// Place:    worker/collective; the one part that sees XLA's FFI headers (in ffi_handlers.cc). For engines whose device
//           memory is host memory.
// Threads:  XLA calls the handlers from its own threads, for all devices at once. They return futures.
// Lifetime: handlers are registered for the rest of the process. A LaunchContext is only used inside the call.
// Errors:   bad attributes, buffers or a missing LaunchContext end that execution with InvalidArgument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"

namespace switchtower {

// The name under which executions carry their LaunchContext.
inline constexpr char kLaunchContextType[] = "switchtower.LaunchContext";

struct CollectiveHandler {
  std::string target;
  void* handler = nullptr;  // XLA_FFI_Handler*
};
std::vector<CollectiveHandler> CollectiveHandlers();

// Tells the handlers the number of kLaunchContextType. It is the same for all plug-ins' clients of a process.
void SetLaunchContextType(int64_t type_id);

// Registers type and handlers with the engine, before it loads programs. Returns the type id, for
// ExchangeEngine::Options and as user data of executions. A LaunchContext's `engine` must be an ExchangeEngine.
absl::StatusOr<int64_t> RegisterCollectives(Engine& engine);

}  // namespace switchtower
