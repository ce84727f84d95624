#include "hlo/lower_collectives.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/collective_translation.h"
#include "hlo/module_index.h"
#include "hlo/source_location.h"

namespace switchtower {
namespace {

// Adds which instruction it was to a status that isn't OK.
absl::Status At(const xla::HloModuleProto& module, const xla::HloInstructionProto& instruction,
                const absl::Status& status) {
  std::string message = absl::StrCat(instruction.opcode(), " ", instruction.name());
  const std::string source = SourceOf(module, instruction.metadata());
  if (!source.empty()) absl::StrAppend(&message, " (", source, ")");
  return absl::Status(status.code(), absl::StrCat(message, ": ", std::string(status.message())));
}

// A collective is matched between ranks by its op id and its iteration, so two places that may run it in either
// order would be mixed up. Loops and branches are one place.
absl::Status CheckOneCallChain(const ModuleIndex& index, const xla::HloComputationProto& computation,
                               int num_computations) {
  const xla::HloComputationProto* at = &computation;
  for (int steps = 0; at != &index.entry(); ++steps) {
    if (steps > num_computations) return absl::InvalidArgumentError("computations call each other in a circle");
    const std::vector<CallSite>& callers = index.CallersOf(at->id());
    if (callers.empty()) return absl::OkStatus();  // never runs
    if (callers.size() > 1) {
      return absl::UnimplementedError(
          absl::StrCat("computation ", at->name(), " is called from ", callers.size(), " places"));
    }
    const std::string& opcode = callers[0].instruction->opcode();
    if (opcode != "while" && opcode != "conditional" && opcode != "call") {
      return absl::UnimplementedError(absl::StrCat("a collective inside ", opcode));
    }
    at = callers[0].caller;
  }
  return absl::OkStatus();
}

// What survives of an instruction that changes its opcode; everything else belonged to the old one.
xla::HloInstructionProto Replacement(const xla::HloInstructionProto& old, const char* opcode) {
  xla::HloInstructionProto fresh;
  fresh.set_name(old.name());
  fresh.set_opcode(opcode);
  fresh.set_id(old.id());
  *fresh.mutable_shape() = old.shape();
  *fresh.mutable_metadata() = old.metadata();
  *fresh.mutable_operand_ids() = old.operand_ids();
  *fresh.mutable_control_predecessor_ids() = old.control_predecessor_ids();
  return fresh;
}

xla::HloInstructionProto CustomCall(const xla::HloInstructionProto& old, CollectiveCall call) {
  xla::HloInstructionProto fresh = Replacement(old, "custom-call");
  fresh.set_custom_call_target(std::move(call.target));
  fresh.set_backend_config(std::move(call.attributes));
  fresh.set_custom_call_api_version(xla::API_VERSION_TYPED_FFI);
  // Keeps every rank's call, also where its result isn't used; partition-id may go.
  fresh.set_custom_call_has_side_effect(old.opcode() != "partition-id");
  return fresh;
}

// Programs have one replica.
xla::HloInstructionProto ReplicaIdZero(const xla::HloInstructionProto& old) {
  xla::HloInstructionProto fresh = Replacement(old, "constant");
  *fresh.mutable_literal()->mutable_shape() = old.shape();
  fresh.mutable_literal()->add_u32s(0);
  return fresh;
}

class Lowering {
 public:
  Lowering(Lowered& lowered, const ModuleIndex& index, int num_partitions)
      : lowered_(lowered), index_(index), num_partitions_(num_partitions) {}

  absl::Status Run() {
    // Instructions are replaced where they stand: the index keeps pointing at them, and shapes don't change.
    for (auto& computation : *lowered_.module.mutable_computations()) {
      RETURN_IF_ERROR(LowerComputation(computation));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status LowerComputation(xla::HloComputationProto& computation) {
    for (auto& instruction : *computation.mutable_instructions()) {
      if (!IsCollective(instruction.opcode())) continue;
      absl::Status status = LowerInstruction(computation, instruction);
      if (!status.ok()) return At(lowered_.module, instruction, status);
    }
    return absl::OkStatus();
  }

  absl::Status LowerInstruction(const xla::HloComputationProto& computation, xla::HloInstructionProto& instruction) {
    if (instruction.opcode() == "replica-id") {
      if (instruction.shape().element_type() != xla::U32 || instruction.shape().dimensions_size() != 0) {
        return absl::InvalidArgumentError("it isn't a u32 scalar");
      }
      instruction = ReplicaIdZero(instruction);
      return absl::OkStatus();
    }
    // Fusions are generated as one kernel, which can't call out.
    if (computation.is_fusion_computation()) return absl::UnimplementedError("it is inside a fusion");
    const int64_t op_id = static_cast<int64_t>(lowered_.collectives.size()) + 1;
    ASSIGN_OR_RETURN(CollectiveCall call,
                     TranslateCollective({index_, computation, num_partitions_}, instruction, op_id));
    if (instruction.opcode() != "partition-id") {
      RETURN_IF_ERROR(CheckOneCallChain(index_, computation, lowered_.module.computations_size()));
      lowered_.collectives.push_back({static_cast<uint32_t>(op_id), instruction.opcode(), instruction.name(),
                                      SourceOf(lowered_.module, instruction.metadata())});
    }
    instruction = CustomCall(instruction, std::move(call));
    return absl::OkStatus();
  }

  Lowered& lowered_;
  const ModuleIndex& index_;
  const int num_partitions_;
};

// Reducers of collectives have nobody left who calls them.
void DeleteUnreachable(xla::HloModuleProto& module) {
  const auto reachable = ReachableComputations(module);
  auto* computations = module.mutable_computations();
  for (int i = 0, kept = 0; i < computations->size(); ++i) {
    if (!reachable.contains(computations->Get(i).id())) continue;
    computations->SwapElements(i, kept++);
  }
  while (computations->size() > 0 && !reachable.contains(computations->rbegin()->id())) computations->RemoveLast();
  auto* sequences = module.mutable_schedule()->mutable_sequences();
  for (auto it = sequences->begin(); it != sequences->end();) {
    it = reachable.contains(it->first) ? std::next(it) : sequences->erase(it);
  }
}

void StripPartitioning(xla::HloModuleProto& module) {
  module.clear_spmd_output_sharding();
  module.clear_spmd_parameters_shardings();
  module.clear_use_auto_spmd_partitioning();
  module.clear_device_assignment();
  for (auto& computation : *module.mutable_computations()) {
    for (auto& instruction : *computation.mutable_instructions()) instruction.clear_sharding();
  }
}

}  // namespace

absl::StatusOr<Lowered> LowerCollectives(xla::HloModuleProto module, const ModuleRules& rules) {
  RETURN_IF_ERROR(CheckModule(module, rules));
  Lowered lowered;
  lowered.module = std::move(module);
  ASSIGN_OR_RETURN(const ModuleIndex index, ModuleIndex::Create(lowered.module));
  RETURN_IF_ERROR(Lowering(lowered, index, rules.num_partitions).Run());
  DeleteUnreachable(lowered.module);
  StripPartitioning(lowered.module);
  return lowered;
}

}  // namespace switchtower
