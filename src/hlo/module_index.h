// Look-ups in an HLO module, and the references inside it checked once.
//
// Place:    hlo. Lives no longer than the module; moving or adding computations or instructions ends its use,
//           changing an instruction in place doesn't.
// Threads:  immutable after Create.
// Errors:   Create: InvalidArgument for ids that are missing or there twice.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// A place that calls a computation.
struct CallSite {
  const xla::HloComputationProto* caller = nullptr;
  const xla::HloInstructionProto* instruction = nullptr;
};

class ModuleIndex {
 public:
  static absl::StatusOr<ModuleIndex> Create(const xla::HloModuleProto& module);

  const xla::HloComputationProto& entry() const { return *entry_; }
  // Null if there is none.
  const xla::HloComputationProto* FindComputation(int64_t id) const;
  // The operands' instructions; all are in the same computation.
  std::vector<const xla::HloInstructionProto*> Operands(const xla::HloComputationProto& computation,
                                                        const xla::HloInstructionProto& instruction) const;
  const xla::HloInstructionProto& Root(const xla::HloComputationProto& computation) const;
  const std::vector<CallSite>& CallersOf(int64_t computation_id) const;

 private:
  absl::Status AddComputations(const xla::HloModuleProto& module);
  absl::Status AddInstructions(const xla::HloComputationProto& computation);
  absl::Status CheckReferences(const xla::HloComputationProto& computation);

  const xla::HloComputationProto* entry_ = nullptr;
  absl::flat_hash_map<int64_t, const xla::HloComputationProto*> computations_;
  // By computation id, then instruction id.
  absl::flat_hash_map<int64_t, absl::flat_hash_map<int64_t, const xla::HloInstructionProto*>> instructions_;
  absl::flat_hash_map<int64_t, std::vector<CallSite>> callers_;
};

// Ids of the computations that the entry computation needs.
absl::flat_hash_set<int64_t> ReachableComputations(const xla::HloModuleProto& module);

}  // namespace switchtower
