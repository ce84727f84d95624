// Questions about operations that the sequencer asks without caring which one it is.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "controller/schedule/admission_ledger.h"
#include "controller/schedule/ops.h"

namespace switchtower {

// Every seat that must have a worker for the operation; a seat may come twice. None for deletes and program
// counts, which go to whoever is there.
void ForEachSeatList(const Op& op, absl::FunctionRef<void(const std::vector<int32_t>&)> fn);

// What operations of a session may have in common: an array, or an executable.
struct Resource {
  enum class Kind : uint8_t { kArray, kExecutable };
  Kind kind = Kind::kArray;
  uint64_t value = 0;

  static Resource Of(ArrayId array) { return {Kind::kArray, array.value}; }
  static Resource Of(const PlacedProgramPtr& program) {
    return {Kind::kExecutable, reinterpret_cast<uintptr_t>(program.get())};
  }
  friend auto operator<=>(const Resource&, const Resource&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Resource& resource) {
    return H::combine(std::move(h), resource.kind, resource.value);
  }
};
// Everything that the operation touches; `writes` where it makes, takes over or ends it. One may come twice.
void ForEachUse(const Op& op, absl::FunctionRef<void(Resource, bool writes)> fn);

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

// The devices on which the operation takes room: time of a launch, memory of what is made. Null for others.
const DeviceList* TakesRoomOn(const Op& op);

}  // namespace switchtower
