#include "hlo/check_module.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/collective_calls.h"
#include "hlo/host_callbacks.h"
#include "hlo/module_index.h"
#include "hlo/native_bounds.h"

namespace switchtower {
namespace {

using StringSet = absl::flat_hash_set<std::string>;

constexpr char kTopK[] = "TopK";

const StringSet& RefusedOpcodes() {
  static const auto* set =
      new StringSet{// Talk to a host or to a peer that the program alone knows.
                    "send", "send-done", "recv", "recv-done", "infeed", "outfeed",
                    // State of a device that outlives the execution.
                    "rng-get-and-update-state",
                    // The asynchronous halves of operations that are lowered whole.
                    "async-start", "async-update", "async-done", "all-gather-start", "all-gather-done",
                    "all-reduce-start", "all-reduce-done", "collective-permute-start", "collective-permute-done"};
  return *set;
}

std::string Described(const xla::HloInstructionProto& instruction) {
  return absl::StrCat(instruction.opcode(), " ", instruction.name());
}

absl::Status CheckCustomCall(const ModuleIndex& index, const xla::HloComputationProto& computation,
                             const xla::HloInstructionProto& instruction, const ModuleRules& rules) {
  const std::string& target = instruction.custom_call_target();
  if (absl::StartsWith(target, kCollectiveTargetPrefix)) {
    return absl::InvalidArgumentError(absl::StrCat("custom call target ", target, " is reserved"));
  }
  if (IsHostCallback(instruction)) return HostCallbackOf(instruction).status();
  if (!rules.custom_call_targets.contains(target)) {
    return absl::UnimplementedError(
        absl::StrCat("custom call target ", target, " (", instruction.name(), ") isn't available on the workers"));
  }
  return target == kTopK ? CheckTopK(instruction, index.Operands(computation, instruction)) : absl::OkStatus();
}

absl::Status CheckInstruction(const ModuleIndex& index, const xla::HloComputationProto& computation,
                              const xla::HloInstructionProto& instruction, const ModuleRules& rules) {
  if (RefusedOpcodes().contains(instruction.opcode())) {
    return absl::UnimplementedError(absl::StrCat(Described(instruction), " isn't supported"));
  }
  if (instruction.is_host_transfer()) {
    return absl::UnimplementedError(absl::StrCat(Described(instruction), " is a host transfer"));
  }
  if (instruction.opcode() == "custom-call") return CheckCustomCall(index, computation, instruction, rules);
  return absl::OkStatus();
}

}  // namespace

const StringSet& BuiltInCustomCalls() {
  static const auto* set = new StringSet{kTopK};
  return *set;
}

bool IsCollective(const std::string& opcode) {
  static const auto* set =
      new StringSet{"all-reduce",           "all-gather",        "reduce-scatter", "all-to-all", "collective-permute",
                    "collective-broadcast", "ragged-all-to-all", "partition-id",   "replica-id"};
  return set->contains(opcode);
}

absl::Status CheckModule(const xla::HloModuleProto& module, const ModuleRules& rules) {
  if (rules.num_partitions < 1 || rules.num_partitions > kMaxProgramPartitions) {
    return absl::InvalidArgumentError(absl::StrCat("a program may have 1 to ", kMaxProgramPartitions,
                                                   " partitions, this one has ", rules.num_partitions));
  }
  ASSIGN_OR_RETURN(const ModuleIndex index, ModuleIndex::Create(module));
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation.instructions()) {
      RETURN_IF_ERROR(CheckInstruction(index, computation, instruction, rules));
    }
  }
  return absl::OkStatus();
}

}  // namespace switchtower
