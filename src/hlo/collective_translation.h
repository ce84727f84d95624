// One collective of a program as the custom call that stands for it (collective_calls.h).
//
// Place:    hlo; used by lower_collectives, one function for all forms.
// Threads:  pure functions.
// Errors:   InvalidArgument: shapes or participants contradict each other. Unimplemented: a form that no handler
//           does. The caller adds which instruction it was.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hlo/module_index.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

struct CollectiveCall {
  std::string target;
  std::string attributes;  // MLIR dictionary
};

struct CollectiveContext {
  const ModuleIndex& index;
  const xla::HloComputationProto& computation;  // the one that holds the instruction
  int num_partitions = 1;
};

// `op_id` becomes an attribute; partition-id doesn't need it. Not for replica-id, which is a constant here.
absl::StatusOr<CollectiveCall> TranslateCollective(const CollectiveContext& context,
                                                   const xla::HloInstructionProto& instruction, int64_t op_id);

}  // namespace switchtower
