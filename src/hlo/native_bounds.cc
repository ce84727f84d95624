#include "hlo/native_bounds.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/element_type.h"
#include "types/shape.h"

namespace switchtower {

absl::Status CheckTopK(const xla::HloInstructionProto& call,
                       const std::vector<const xla::HloInstructionProto*>& operands) {
  if (operands.size() != 1 || call.shape().tuple_shapes_size() != 2) {
    return absl::InvalidArgumentError("TopK has one operand and two results");
  }
  ASSIGN_OR_RETURN(const Shape operand, ShapeOf(operands[0]->shape()));
  ASSIGN_OR_RETURN(const Shape values, ShapeOf(call.shape().tuple_shapes(0)));
  ASSIGN_OR_RETURN(const Shape indices, ShapeOf(call.shape().tuple_shapes(1)));
  const int rank = operand.rank();
  if (operand.dtype != DType::kF32 || values.dtype != DType::kF32 || indices.dtype != DType::kS32 || rank < 1 ||
      rank > 2 || values.rank() != rank || indices.dims != values.dims ||
      (rank == 2 && operand.dims[0] != values.dims[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("TopK of ", operand.ToString(), " can't give ", values.ToString(), " and ", indices.ToString()));
  }
  const int64_t k = values.dims.back(), n = operand.dims.back();
  if (k < 1 || k > n || n > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("TopK can't find ", k, " of ", n));
  }
  return absl::OkStatus();
}

bool MakeSortsStable(xla::HloModuleProto& module) {
  bool changed = false;
  for (auto& computation : *module.mutable_computations()) {
    for (auto& instruction : *computation.mutable_instructions()) {
      if (instruction.opcode() != "sort" || instruction.is_stable()) continue;
      instruction.set_is_stable(true);
      changed = true;
    }
  }
  return changed;
}

}  // namespace switchtower
