// Builds small HLO modules for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xla/service/hlo.pb.h"

namespace switchtower {

// A dense array; row major unless minor_to_major is given.
inline xla::ShapeProto ArrayShape(xla::PrimitiveType type, const std::vector<int64_t>& dims,
                                  std::vector<int64_t> minor_to_major = {}) {
  xla::ShapeProto shape;
  shape.set_element_type(type);
  for (int64_t dim : dims) shape.add_dimensions(dim);
  if (minor_to_major.empty()) {
    for (size_t i = dims.size(); i-- > 0;) minor_to_major.push_back(static_cast<int64_t>(i));
  }
  shape.mutable_layout();
  for (int64_t dim : minor_to_major) shape.mutable_layout()->add_minor_to_major(dim);
  return shape;
}

inline xla::ShapeProto TupleShape(const std::vector<xla::ShapeProto>& parts) {
  xla::ShapeProto shape;
  shape.set_element_type(xla::TUPLE);
  for (const auto& part : parts) *shape.add_tuple_shapes() = part;
  return shape;
}

// A module with one entry computation; pointers stay valid while the builder lives.
class ModuleBuilder {
 public:
  ModuleBuilder() {
    module_.set_name("jit_test");
    module_.set_entry_computation_id(1);
    AddComputation(1, "main");
  }

  xla::HloModuleProto& module() { return module_; }
  xla::HloComputationProto* entry() { return module_.mutable_computations(0); }

  xla::HloComputationProto* AddComputation(int64_t id, const std::string& name) {
    auto* computation = module_.add_computations();
    computation->set_id(id);
    computation->set_name(name);
    return computation;
  }

  // Becomes the root. Its operands are earlier instructions of the same computation.
  xla::HloInstructionProto* Add(xla::HloComputationProto* computation, const std::string& opcode,
                                const xla::ShapeProto& shape,
                                const std::vector<const xla::HloInstructionProto*>& operands = {}) {
    auto* instruction = computation->add_instructions();
    instruction->set_id((computation->id() << 32) + computation->instructions_size());
    instruction->set_name(opcode + "." + std::to_string(next_name_++));
    instruction->set_opcode(opcode);
    *instruction->mutable_shape() = shape;
    for (const auto* operand : operands) instruction->add_operand_ids(operand->id());
    computation->set_root_id(instruction->id());
    (*module_.mutable_schedule()->mutable_sequences())[computation->id()].add_instruction_ids(instruction->id());
    return instruction;
  }

  xla::HloInstructionProto* Parameter(xla::HloComputationProto* computation, int number, const xla::ShapeProto& shape) {
    auto* parameter = Add(computation, "parameter", shape);
    parameter->set_parameter_number(number);
    return parameter;
  }

  // A computation that combines two scalars by `opcode`.
  xla::HloComputationProto* Reducer(int64_t id, const std::string& opcode, xla::PrimitiveType type) {
    auto* reducer = AddComputation(id, "reduce_" + opcode);
    auto* a = Parameter(reducer, 0, ArrayShape(type, {}));
    auto* b = Parameter(reducer, 1, ArrayShape(type, {}));
    Add(reducer, opcode, ArrayShape(type, {}), {a, b});
    return reducer;
  }

  // A collective over global partition numbers, as JAX programs have them; no list: all.
  xla::HloInstructionProto* Collective(xla::HloComputationProto* computation, const std::string& opcode,
                                       const xla::ShapeProto& shape,
                                       const std::vector<const xla::HloInstructionProto*>& operands,
                                       const std::vector<std::vector<int64_t>>& groups = {}) {
    auto* instruction = Add(computation, opcode, shape, operands);
    instruction->set_channel_id(7);
    if (opcode == "all-reduce" || opcode == "all-gather" || opcode == "reduce-scatter") {
      instruction->set_use_global_device_ids(true);
    }
    for (const auto& group : groups) {
      auto* list = instruction->mutable_collective_device_list()->add_replica_groups();
      for (int64_t id : group) list->add_replica_ids(id);
    }
    return instruction;
  }

 private:
  xla::HloModuleProto module_;
  int next_name_ = 0;
};

}  // namespace switchtower
