#include "hlo/hlo_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/module_builder.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;
using xla::F32;

TEST(HloTextTest, WholeModule) {
  ModuleBuilder builder;
  builder.Reducer(2, "add", F32);
  const auto shape = ArrayShape(F32, {4, 2}, {0, 1});
  auto* x = builder.Parameter(builder.entry(), 0, shape);
  x->mutable_sharding()->set_type(xla::OpSharding::REPLICATED);
  auto* call = builder.Collective(builder.entry(), "all-reduce", shape, {x}, {{0, 1}, {2, 3}});
  call->add_called_computation_ids(2);
  call->mutable_metadata()->set_op_name("jit(f)/psum");
  call->mutable_metadata()->set_source_file("f.py");
  call->mutable_metadata()->set_source_line(3);
  *builder.entry()->mutable_program_shape()->mutable_result() = shape;
  auto* program = builder.module().mutable_host_program_shape();
  *program->add_parameters() = shape;
  *program->mutable_result() = shape;
  builder.module().mutable_input_output_alias()->add_entries()->set_kind(xla::MAY_ALIAS);
  builder.module().mutable_device_assignment()->set_computation_count(4);
  const std::string text = ModuleText(builder.module());
  EXPECT_THAT(text, HasSubstr("HloModule jit_test, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, "
                              "entry_computation_layout={(f32[4,2]{0,1})->f32[4,2]{0,1}}, num_partitions=4\n"));
  EXPECT_THAT(text, HasSubstr("ENTRY %main (parameter.3: f32[4,2]) -> f32[4,2] {\n"
                              "  %parameter.3 = f32[4,2]{0,1} parameter(0), sharding={replicated}\n"
                              "  ROOT %all-reduce.4 = f32[4,2]{0,1} all-reduce(%parameter.3), channel_id=7, "
                              "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%reduce_add, "
                              "metadata={op_name=\"jit(f)/psum\" source_file=\"f.py\" source_line=3}\n}\n"));
}

std::string Constant(const xla::ShapeProto& shape, const std::function<void(xla::LiteralProto*)>& fill) {
  ModuleBuilder builder;
  auto* constant = builder.Add(builder.entry(), "constant", shape);
  *constant->mutable_literal()->mutable_shape() = shape;
  fill(constant->mutable_literal());
  return ModuleText(builder.module());
}

TEST(HloTextTest, Constants) {
  EXPECT_THAT(Constant(ArrayShape(F32, {}), [](auto* l) { l->add_f32s(0.1f); }), HasSubstr("constant(0.1)"));
  EXPECT_THAT(Constant(ArrayShape(xla::S32, {3}),
                       [](auto* l) {
                         for (int v : {1, -2, 3}) l->add_s32s(v);
                       }),
              HasSubstr("constant({1, -2, 3})"));
  EXPECT_THAT(Constant(ArrayShape(xla::BF16, {}), [](auto* l) { l->set_bf16s(std::string("\x80\x3f", 2)); }),
              HasSubstr("constant(1)"));
  EXPECT_THAT(Constant(ArrayShape(xla::F16, {}), [](auto* l) { l->set_f16s(std::string("\x00\xc0", 2)); }),
              HasSubstr("constant(-2)"));
  EXPECT_THAT(Constant(ArrayShape(F32, {100}), [](auto*) {}), HasSubstr("constant({...})"));
  // Fewer values than the shape says.
  EXPECT_THAT(Constant(ArrayShape(F32, {2}), [](auto* l) { l->add_f32s(5); }), HasSubstr("constant({5, ?})"));
}

TEST(HloTextTest, IdsThatPointNowhereAreShownAsSuch) {
  ModuleBuilder builder;
  auto* call = builder.Add(builder.entry(), "call", ArrayShape(F32, {}));
  call->add_operand_ids(99);
  call->add_called_computation_ids(98);
  EXPECT_THAT(ModuleText(builder.module()), HasSubstr("call(?), to_apply=?"));
}

}  // namespace
}  // namespace switchtower
