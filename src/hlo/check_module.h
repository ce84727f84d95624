// Decides whether a partitioned program may run here, before anything is done with it.
//
// What can't run on independent processes, what would reach around the runtime (a custom call resolves to a
// native function, so only known targets pass) and what names our own handlers is refused by name.
//
// Place:    hlo; CompilePipeline calls it on the captured module, LowerCollectives calls it again.
// Threads:  pure functions.
// Errors:   InvalidArgument: broken module, reserved target. Unimplemented: an operation that isn't supported.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// XLA's CPU client numbers at most this many devices in a process.
inline constexpr int kMaxProgramPartitions = 2048;

// Custom calls that XLA's CPU backend implements itself, without a registered function.
const absl::flat_hash_set<std::string>& BuiltInCustomCalls();

struct ModuleRules {
  int num_partitions = 1;
  // Exact targets that pass: the built-in ones and those that the workers register.
  absl::flat_hash_set<std::string> custom_call_targets = BuiltInCustomCalls();
};

absl::Status CheckModule(const xla::HloModuleProto& module, const ModuleRules& rules);

// True for operations that LowerCollectives replaces.
bool IsCollective(const std::string& opcode);

}  // namespace switchtower
