// Calls of a program to functions in the client's process, as jax lowers them for "cpu": typed FFI custom calls
// whose one attribute numbers the function.
//
// The targets keep XLA's own names, because its partitioner and Shardy treat calls of these names in a way of their
// own. Our client package numbers the functions (it hands out each number once in the life of the process); the
// wheel alone would number them by position and keep them to itself.
//
// Place:    hlo; CheckModule lets such calls pass, ProgramInfo lists them, the workers register the handlers.
// Threads:  pure functions.
// Errors:   InvalidArgument for a call that isn't what the package writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

namespace host_callback_target {
inline constexpr char kWhole[] = "xla_ffi_python_cpu_callback";
// Runs on the shards of each device, without results.
inline constexpr char kPartitioned[] = "xla_ffi_partitioned_python_cpu_callback";
}  // namespace host_callback_target

// Number of the function, a u64.
inline constexpr char kHostCallbackIndex[] = "index";

std::vector<std::string> HostCallbackTargets();
bool IsHostCallback(const xla::HloInstructionProto& instruction);

// The function that a host callback calls.
absl::StatusOr<uint64_t> HostCallbackOf(const xla::HloInstructionProto& instruction);

// All functions that a checked module may call, ascending.
std::vector<uint64_t> HostCallbacksIn(const xla::HloModuleProto& module);

}  // namespace switchtower
