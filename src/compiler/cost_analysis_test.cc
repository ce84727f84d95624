#include "compiler/cost_analysis.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

xla::ShapeProto F32(std::initializer_list<int64_t> dims) {
  xla::ShapeProto shape;
  shape.set_element_type(xla::F32);
  for (int64_t dim : dims) shape.add_dimensions(dim);
  return shape;
}

xla::HloInstructionProto* Add(xla::HloComputationProto* computation, const std::string& opcode,
                              const xla::ShapeProto& shape, std::initializer_list<int64_t> operands) {
  auto* instruction = computation->add_instructions();
  instruction->set_id(computation->id() * 100 + computation->instructions_size());
  instruction->set_name(opcode + std::to_string(instruction->id()));
  instruction->set_opcode(opcode);
  *instruction->mutable_shape() = shape;
  for (int64_t operand : operands) instruction->add_operand_ids(operand);
  computation->set_root_id(instruction->id());
  return instruction;
}

xla::HloComputationProto* AddComputation(xla::HloModuleProto& module, int64_t id) {
  auto* computation = module.add_computations();
  computation->set_id(id);
  computation->set_name("c" + std::to_string(id));
  return computation;
}

void AddSum(xla::HloModuleProto& module, int64_t id) {
  auto* sum = AddComputation(module, id);
  auto* a = Add(sum, "parameter", F32({}), {});
  auto* b = Add(sum, "parameter", F32({}), {});
  Add(sum, "add", F32({}), {a->id(), b->id()});
}

std::map<std::string, double> Estimate(const xla::HloModuleProto& module) {
  auto costs = EstimateCosts(module);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return costs.ok() ? *costs : std::map<std::string, double>{};
}

TEST(CostAnalysisTest, CountsAMatrixProduct) {
  xla::HloModuleProto module;
  auto* entry = AddComputation(module, 1);
  module.set_entry_computation_id(1);
  const int64_t a = Add(entry, "parameter", F32({64, 32}), {})->id();
  auto* dot = Add(entry, "dot", F32({64, 64}), {a, a});
  dot->mutable_dot_dimension_numbers()->add_lhs_contracting_dimensions(1);
  const int64_t product = dot->id();
  Add(entry, "tanh", F32({64, 64}), {product});
  auto costs = Estimate(module);
  EXPECT_EQ(costs["flops"], 2 * 64 * 64 * 32);
  EXPECT_EQ(costs["transcendentals"], 64 * 64);
  EXPECT_EQ(costs["bytes accessed"], 4 * (2 * 64 * 32 + 64 * 64 + 2 * 64 * 64));
}

TEST(CostAnalysisTest, AFusionHasTrafficAtItsBorderOnly) {
  xla::HloModuleProto module;
  AddSum(module, 3);
  auto* inner = AddComputation(module, 2);
  const int64_t p = Add(inner, "parameter", F32({8, 4}), {})->id();
  const int64_t doubled = Add(inner, "add", F32({8, 4}), {p, p})->id();
  const int64_t zero = Add(inner, "constant", F32({}), {})->id();
  Add(inner, "reduce", F32({8}), {doubled, zero})->add_called_computation_ids(3);
  auto* entry = AddComputation(module, 1);
  module.set_entry_computation_id(1);
  const int64_t x = Add(entry, "parameter", F32({8, 4}), {})->id();
  Add(entry, "fusion", F32({8}), {x})->add_called_computation_ids(2);
  auto costs = Estimate(module);
  EXPECT_EQ(costs["flops"], 32 + 24);
  EXPECT_EQ(costs["bytes accessed"], 4 * (32 + 8));
  EXPECT_EQ(costs["bytes accessedout{}"], 4 * 8);
}

TEST(CostAnalysisTest, OneIterationOfALoopAndTheDearestBranch) {
  xla::HloModuleProto module;
  for (int64_t id : {2, 3}) {
    auto* body = AddComputation(module, id);
    const int64_t p = Add(body, "parameter", F32({id * 10}), {})->id();
    Add(body, "add", F32({id * 10}), {p, p});
  }
  auto* entry = AddComputation(module, 1);
  module.set_entry_computation_id(1);
  const int64_t x = Add(entry, "parameter", F32({20}), {})->id();
  auto* loop = Add(entry, "while", F32({20}), {x});
  loop->add_called_computation_ids(2);
  auto* branch = Add(entry, "conditional", F32({20}), {x});
  branch->add_called_computation_ids(2);
  branch->add_called_computation_ids(3);
  EXPECT_EQ(Estimate(module)["flops"], 20 + 30);
}

TEST(CostAnalysisTest, RefusesABrokenModule) {
  xla::HloModuleProto module;
  EXPECT_FALSE(EstimateCosts(module).ok());
}

}  // namespace
}  // namespace switchtower
