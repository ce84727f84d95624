// Questions about operations that the sequencer asks without caring which one it is.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "controller/schedule/admission_ledger.h"
#include "controller/schedule/ops.h"

namespace switchtower {

// Every seat that must have a worker for the operation; a seat may come twice. None for deletes and program
// counts, which go to whoever is there.
void ForEachSeatList(const Op& op, absl::FunctionRef<void(const std::vector<int32_t>&)> fn);
// Every array that the operation reads or makes.
void ForEachArray(const Op& op, absl::FunctionRef<void(ArrayId)> fn);

// Memory that arrays of the operation will hold, and what it holds only while it runs.
struct MemoryNeeds {
  std::vector<std::pair<ArrayId, std::vector<AdmissionLedger::Need>>> arrays;
  std::vector<AdmissionLedger::Need> temporaries;
  std::vector<AdmissionLedger::Need> All() const;
};
bool NeedsMemory(const Op& op);
MemoryNeeds NeedsOf(const Op& op);

// "launch of jit_step", for messages.
std::string Describe(const Op& op);

}  // namespace switchtower
