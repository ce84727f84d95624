#include "compiler/cost_analysis.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "hlo/module_index.h"
#include "types/dtype.h"

namespace switchtower {
namespace {

using Instruction = xla::HloInstructionProto;
using Operands = std::vector<const Instruction*>;
using Names = absl::flat_hash_set<std::string>;

struct Costs {
  double flops = 0, transcendentals = 0, bytes = 0, bytes_out = 0;
  Costs& operator+=(const Costs& other) {
    flops += other.flops;
    transcendentals += other.transcendentals;
    bytes += other.bytes;
    bytes_out += other.bytes_out;
    return *this;
  }
};

double Elements(const xla::ShapeProto& shape) {
  double elements = 1;
  for (int64_t dim : shape.dimensions()) elements *= static_cast<double>(dim);
  return elements;
}

double BitsOf(xla::PrimitiveType type) {
  switch (type) {
    case xla::PRED:
    case xla::S8:
    case xla::U8:
      return 8;
    case xla::S16:
    case xla::U16:
    case xla::F16:
    case xla::BF16:
      return 16;
    case xla::S32:
    case xla::U32:
    case xla::F32:
      return 32;
    case xla::S64:
    case xla::U64:
    case xla::F64:
    case xla::C64:
      return 64;
    case xla::C128:
      return 128;
    case xla::S4:
    case xla::U4:
    case xla::F4E2M1FN:
      return 4;
    case xla::S2:
    case xla::U2:
      return 2;
    case xla::S1:
    case xla::U1:
      return 1;
    case xla::TUPLE:
    case xla::TOKEN:
    case xla::OPAQUE_TYPE:
    case xla::PRIMITIVE_TYPE_INVALID:
      return 0;
    default:
      return 8;  // the eight-bit floats
  }
}

double Bytes(const xla::ShapeProto& shape) {
  if (shape.element_type() != xla::TUPLE) return std::ceil(Elements(shape) * BitsOf(shape.element_type()) / 8);
  double bytes = 0;
  for (const auto& part : shape.tuple_shapes()) bytes += Bytes(part);
  return bytes;
}

const Names& Transcendental() {
  static const auto* set = new Names{"exponential", "exponential-minus-one",
                                     "log",         "log-plus-one",
                                     "power",       "sqrt",
                                     "rsqrt",       "cbrt",
                                     "tanh",        "tan",
                                     "sine",        "cosine",
                                     "logistic",    "erf",
                                     "atan2"};
  return *set;
}

// Operations that do one operation on each element of their result.
const Names& Elementwise() {
  static const auto* set = new Names{"abs",
                                     "add",
                                     "and",
                                     "ceil",
                                     "clamp",
                                     "clz",
                                     "compare",
                                     "complex",
                                     "convert",
                                     "count-leading-zeros",
                                     "divide",
                                     "floor",
                                     "imag",
                                     "is-finite",
                                     "maximum",
                                     "minimum",
                                     "multiply",
                                     "negate",
                                     "not",
                                     "or",
                                     "popcnt",
                                     "real",
                                     "reduce-precision",
                                     "remainder",
                                     "round-nearest-afz",
                                     "round-nearest-even",
                                     "select",
                                     "shift-left",
                                     "shift-right-arithmetic",
                                     "shift-right-logical",
                                     "sign",
                                     "stochastic-convert",
                                     "subtract",
                                     "xor",
                                     "map"};
  return *set;
}

// Operations that only name what is there already.
const Names& Free() {
  static const auto* set =
      new Names{"parameter",    "constant",   "tuple",  "get-tuple-element", "bitcast", "after-all", "add-dependency",
                "partition-id", "replica-id", "domain", "opt-barrier"};
  return *set;
}

class Estimator {
 public:
  explicit Estimator(const ModuleIndex& index) : index_(index) {}

  // With `inside_fusion` only the arithmetic counts.
  Costs OfComputation(const xla::HloComputationProto& computation, bool inside_fusion) {
    const auto key = std::make_pair(computation.id(), inside_fusion);
    // Each computation is looked at once; one that calls itself gets zero.
    if (auto it = known_.find(key); it != known_.end()) return it->second;
    known_[key] = Costs{};
    Costs costs;
    for (const Instruction& instruction : computation.instructions()) {
      costs += OfInstruction(computation, instruction, inside_fusion);
    }
    known_[key] = costs;
    return costs;
  }

 private:
  Costs OfCalled(const Instruction& instruction, int position, bool inside_fusion) {
    if (position >= instruction.called_computation_ids_size()) return {};
    const auto* computation = index_.FindComputation(instruction.called_computation_ids(position));
    return computation == nullptr ? Costs{} : OfComputation(*computation, inside_fusion);
  }

  Costs OfInstruction(const xla::HloComputationProto& computation, const Instruction& instruction, bool inside_fusion) {
    const std::string& opcode = instruction.opcode();
    if (Free().contains(opcode)) return {};
    if (opcode == "while" || opcode == "call") {
      Costs costs;
      for (int i = 0; i < instruction.called_computation_ids_size(); ++i) {
        costs += OfCalled(instruction, i, inside_fusion);
      }
      return costs;
    }
    if (opcode == "conditional") return OfDearestBranch(instruction, inside_fusion);
    const Operands operands = index_.Operands(computation, instruction);
    Costs costs = opcode == "fusion" ? OfCalled(instruction, 0, true) : Arithmetic(instruction, operands);
    costs.bytes = costs.bytes_out = 0;
    if (!inside_fusion) AddTraffic(instruction, operands, costs);
    return costs;
  }

  Costs OfDearestBranch(const Instruction& instruction, bool inside_fusion) {
    Costs dearest;
    for (int i = 0; i < instruction.called_computation_ids_size(); ++i) {
      const Costs branch = OfCalled(instruction, i, inside_fusion);
      if (branch.flops + branch.bytes > dearest.flops + dearest.bytes) dearest = branch;
    }
    return dearest;
  }

  Costs Arithmetic(const Instruction& instruction, const Operands& operands) {
    const std::string& opcode = instruction.opcode();
    const double results = Elements(instruction.shape());
    Costs costs;
    if (Transcendental().contains(opcode)) {
      costs.transcendentals = results;
    } else if (Elementwise().contains(opcode)) {
      costs.flops = results;
    } else if (opcode == "dot" && !operands.empty()) {
      double contracted = 1;
      const auto& lhs = operands[0]->shape();
      for (int64_t dim : instruction.dot_dimension_numbers().lhs_contracting_dimensions()) {
        if (dim >= 0 && dim < lhs.dimensions_size()) contracted *= static_cast<double>(lhs.dimensions(dim));
      }
      costs.flops = 2 * results * contracted;
    } else if (opcode == "convolution" && operands.size() == 2) {
      const auto& kernel = operands[1]->shape();
      const int64_t feature = instruction.convolution_dimension_numbers().kernel_output_feature_dimension();
      const double features =
          feature >= 0 && feature < kernel.dimensions_size() ? static_cast<double>(kernel.dimensions(feature)) : 1;
      costs.flops = 2 * results * Elements(kernel) / std::max(features, 1.0);
    } else if (opcode == "reduce" && !operands.empty()) {
      const auto& shape = instruction.shape();
      const double kept = shape.element_type() == xla::TUPLE && shape.tuple_shapes_size() > 0
                              ? Elements(shape.tuple_shapes(0))
                              : results;
      AddReductions(instruction, std::max(Elements(operands[0]->shape()) - kept, 0.0), costs);
    } else if (opcode == "reduce-window" || opcode == "select-and-scatter") {
      double window = 1;
      for (const auto& dim : instruction.window().dimensions()) window *= static_cast<double>(dim.size());
      AddReductions(instruction, results * std::max(window - 1, 0.0), costs);
    } else if (opcode == "scatter" && !operands.empty()) {
      AddReductions(instruction, Elements(operands.back()->shape()), costs);
    } else if (opcode == "all-reduce" || opcode == "reduce-scatter") {
      for (const Instruction* operand : operands) AddReductions(instruction, Elements(operand->shape()), costs);
    } else if (opcode == "sort" && !operands.empty()) {
      const double elements = Elements(operands[0]->shape());
      costs.flops = elements * std::ceil(std::log2(std::max(elements, 1.0)));
    }
    return costs;
  }

  void AddReductions(const Instruction& instruction, double times, Costs& costs) {
    const Costs once = OfCalled(instruction, instruction.called_computation_ids_size() - 1, true);
    costs.flops += times * once.flops;
    costs.transcendentals += times * once.transcendentals;
  }

  static void AddTraffic(const Instruction& instruction, const Operands& operands, Costs& costs) {
    const std::string& opcode = instruction.opcode();
    const double out = Bytes(instruction.shape());
    double in = 0;
    if (opcode == "slice" || opcode == "dynamic-slice" || opcode == "gather") {
      // Of the source only what ends in the result is read.
      in = out;
      for (size_t i = 1; i < operands.size(); ++i) in += Bytes(operands[i]->shape());
      costs.bytes_out = out;
    } else if (opcode == "dynamic-update-slice" && operands.size() >= 2) {
      // In place: the update is read and written.
      in = Bytes(operands[1]->shape());
      costs.bytes_out = in;
    } else {
      for (const Instruction* operand : operands) in += Bytes(operand->shape());
      costs.bytes_out = out;
    }
    costs.bytes = in + costs.bytes_out;
  }

  const ModuleIndex& index_;
  absl::flat_hash_map<std::pair<int64_t, bool>, Costs> known_;
};

}  // namespace

absl::StatusOr<std::map<std::string, double>> EstimateCosts(const xla::HloModuleProto& module) {
  ASSIGN_OR_RETURN(const ModuleIndex index, ModuleIndex::Create(module));
  const Costs costs = Estimator(index).OfComputation(index.entry(), false);
  return std::map<std::string, double>{{"flops", costs.flops},
                                       {"transcendentals", costs.transcendentals},
                                       {"bytes accessed", costs.bytes},
                                       {"bytes accessedout{}", costs.bytes_out}};
}

}  // namespace switchtower
