// Turns a partitioned program of N ranks into one that each rank runs alone: operations that depend on the set of
// participants become custom calls of the workers (collective_calls.h).
//
// Place:    hlo; the step between capture and code generation in the compiler. Module in, module out.
// Threads:  pure function.
// Errors:   as CheckModule; a collective that can't be lowered is named with its source line.
// Invariants: L-1 ids of instructions and computations don't change, so the schedule stays consistent.
//             L-2 op ids count from 1 in module order: the same module gets the same ids.
//             L-3 a collective runs at one place of the program: its computation has one chain of callers.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "hlo/check_module.h"
#include "types/program.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

struct Lowered {
  xla::HloModuleProto module;
  // By ascending op id.
  std::vector<CollectiveSite> collectives;
};

absl::StatusOr<Lowered> LowerCollectives(xla::HloModuleProto module, const ModuleRules& rules);

}  // namespace switchtower
