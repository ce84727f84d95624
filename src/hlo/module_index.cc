#include "hlo/module_index.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::Status Bad(std::string what) {
  return absl::InvalidArgumentError(absl::StrCat("the HLO module is broken: ", what));
}

}  // namespace

absl::StatusOr<ModuleIndex> ModuleIndex::Create(const xla::HloModuleProto& module) {
  ModuleIndex index;
  RETURN_IF_ERROR(index.AddComputations(module));
  for (const auto& computation : module.computations()) RETURN_IF_ERROR(index.CheckReferences(computation));
  return index;
}

absl::Status ModuleIndex::AddComputations(const xla::HloModuleProto& module) {
  for (const auto& computation : module.computations()) {
    if (!computations_.emplace(computation.id(), &computation).second) {
      return Bad(absl::StrCat("computation id ", computation.id(), " is there twice"));
    }
    RETURN_IF_ERROR(AddInstructions(computation));
  }
  entry_ = FindComputation(module.entry_computation_id());
  if (entry_ == nullptr) return Bad("it has no entry computation");
  return absl::OkStatus();
}

absl::Status ModuleIndex::AddInstructions(const xla::HloComputationProto& computation) {
  auto& instructions = instructions_[computation.id()];
  for (const auto& instruction : computation.instructions()) {
    if (!instructions.emplace(instruction.id(), &instruction).second) {
      return Bad(absl::StrCat("instruction id ", instruction.id(), " is there twice"));
    }
  }
  if (!instructions.contains(computation.root_id())) {
    return Bad(absl::StrCat("computation ", computation.name(), " has no root"));
  }
  return absl::OkStatus();
}

absl::Status ModuleIndex::CheckReferences(const xla::HloComputationProto& computation) {
  const auto& instructions = instructions_[computation.id()];
  for (const auto& instruction : computation.instructions()) {
    for (int64_t id : instruction.operand_ids()) {
      if (!instructions.contains(id)) return Bad(absl::StrCat("an operand of ", instruction.name(), " is missing"));
    }
    for (int64_t id : instruction.called_computation_ids()) {
      if (!computations_.contains(id)) {
        return Bad(absl::StrCat("a computation that ", instruction.name(), " calls is missing"));
      }
      callers_[id].push_back({&computation, &instruction});
    }
  }
  return absl::OkStatus();
}

const xla::HloComputationProto* ModuleIndex::FindComputation(int64_t id) const {
  auto it = computations_.find(id);
  return it == computations_.end() ? nullptr : it->second;
}

std::vector<const xla::HloInstructionProto*> ModuleIndex::Operands(const xla::HloComputationProto& computation,
                                                                   const xla::HloInstructionProto& instruction) const {
  const auto& instructions = instructions_.at(computation.id());
  std::vector<const xla::HloInstructionProto*> operands;
  for (int64_t id : instruction.operand_ids()) operands.push_back(instructions.at(id));
  return operands;
}

const xla::HloInstructionProto& ModuleIndex::Root(const xla::HloComputationProto& computation) const {
  return *instructions_.at(computation.id()).at(computation.root_id());
}

const std::vector<CallSite>& ModuleIndex::CallersOf(int64_t computation_id) const {
  static const std::vector<CallSite> kNone;
  auto it = callers_.find(computation_id);
  return it == callers_.end() ? kNone : it->second;
}

absl::flat_hash_set<int64_t> ReachableComputations(const xla::HloModuleProto& module) {
  absl::flat_hash_map<int64_t, const xla::HloComputationProto*> by_id;
  for (const auto& computation : module.computations()) by_id.emplace(computation.id(), &computation);
  absl::flat_hash_set<int64_t> reached = {module.entry_computation_id()};
  std::vector<int64_t> open = {module.entry_computation_id()};
  while (!open.empty()) {
    auto it = by_id.find(open.back());
    open.pop_back();
    if (it == by_id.end()) continue;
    for (const auto& instruction : it->second->instructions()) {
      for (int64_t id : instruction.called_computation_ids()) {
        if (reached.insert(id).second) open.push_back(id);
      }
    }
  }
  return reached;
}

}  // namespace switchtower
