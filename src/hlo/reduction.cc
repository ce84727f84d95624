#include "hlo/reduction.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace switchtower {
namespace {

std::optional<ReductionKind> KindOf(const std::string& opcode) {
  if (opcode == "add") return ReductionKind::kSum;
  if (opcode == "multiply") return ReductionKind::kProduct;
  if (opcode == "minimum") return ReductionKind::kMin;
  if (opcode == "maximum") return ReductionKind::kMax;
  if (opcode == "and") return ReductionKind::kAnd;
  if (opcode == "or") return ReductionKind::kOr;
  if (opcode == "xor") return ReductionKind::kXor;
  return std::nullopt;
}

enum class Family { kLogical, kInteger, kReal, kComplex, kOther };

Family FamilyOf(xla::PrimitiveType type) {
  switch (type) {
    case xla::PRED:
      return Family::kLogical;
    case xla::S8:
    case xla::S16:
    case xla::S32:
    case xla::S64:
    case xla::U8:
    case xla::U16:
    case xla::U32:
    case xla::U64:
      return Family::kInteger;
    case xla::F16:
    case xla::BF16:
    case xla::F32:
    case xla::F64:
      return Family::kReal;
    case xla::C64:
    case xla::C128:
      return Family::kComplex;
    default:
      return Family::kOther;
  }
}

ReductionKind LogicalEqual(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
    case ReductionKind::kMax:
      return ReductionKind::kOr;
    case ReductionKind::kProduct:
    case ReductionKind::kMin:
      return ReductionKind::kAnd;
    default:
      return kind;
  }
}

bool IsBitwise(ReductionKind kind) {
  return kind == ReductionKind::kAnd || kind == ReductionKind::kOr || kind == ReductionKind::kXor;
}

// True if both parameters, each once, are the operands.
bool CombinesBothParameters(const std::vector<const xla::HloInstructionProto*>& operands) {
  if (operands.size() != 2) return false;
  const auto is_parameter = [&](int operand, int64_t number) {
    return operands[operand]->opcode() == "parameter" && operands[operand]->parameter_number() == number;
  };
  return (is_parameter(0, 0) && is_parameter(1, 1)) || (is_parameter(0, 1) && is_parameter(1, 0));
}

}  // namespace

absl::StatusOr<ReductionKind> ReductionOf(const ModuleIndex& index, const xla::HloInstructionProto& instruction) {
  if (instruction.called_computation_ids_size() != 1) {
    return absl::InvalidArgumentError("it must call one computation");
  }
  const xla::HloComputationProto& reducer = *index.FindComputation(instruction.called_computation_ids(0));
  const xla::HloInstructionProto& root = index.Root(reducer);
  const std::optional<ReductionKind> kind = KindOf(root.opcode());
  if (!kind.has_value() || !CombinesBothParameters(index.Operands(reducer, root))) {
    return absl::UnimplementedError(
        absl::StrCat("its reduction ", reducer.name(), " (", root.opcode(), ") isn't a plain binary operation"));
  }
  return *kind;
}

absl::StatusOr<ReductionKind> ReductionOn(ReductionKind kind, xla::PrimitiveType type) {
  const Family family = FamilyOf(type);
  const bool arithmetic = kind == ReductionKind::kSum || kind == ReductionKind::kProduct;
  if (family == Family::kLogical) return LogicalEqual(kind);
  if (family == Family::kInteger) return kind;
  if (family == Family::kReal && !IsBitwise(kind)) return kind;
  if (family == Family::kComplex && arithmetic) return kind;
  return absl::UnimplementedError(absl::StrCat("its reduction isn't defined on ", xla::PrimitiveType_Name(type)));
}

}  // namespace switchtower
