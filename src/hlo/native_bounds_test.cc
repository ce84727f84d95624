#include "hlo/native_bounds.h"

#include <gtest/gtest.h>

#include "hlo/check_module.h"
#include "hlo/module_builder.h"

namespace switchtower {
namespace {

using xla::F32;
using xla::F64;
using xla::S32;
using xla::ShapeProto;

absl::Status CheckCall(const ShapeProto& operand, const ShapeProto& result) {
  ModuleBuilder builder;
  auto* x = builder.Parameter(builder.entry(), 0, operand);
  builder.Add(builder.entry(), "custom-call", result, {x})->set_custom_call_target("TopK");
  return CheckModule(builder.module(), ModuleRules());
}

absl::Status CheckCall(const ShapeProto& operand, const ShapeProto& values, const ShapeProto& indices) {
  return CheckCall(operand, TupleShape({values, indices}));
}

TEST(NativeBoundsTest, TopKOfVectorsAndBatches) {
  EXPECT_TRUE(CheckCall(ArrayShape(F32, {16}), ArrayShape(F32, {4}), ArrayShape(S32, {4})).ok());
  EXPECT_TRUE(CheckCall(ArrayShape(F32, {16}), ArrayShape(F32, {16}), ArrayShape(S32, {16})).ok());
  EXPECT_TRUE(CheckCall(ArrayShape(F32, {3, 16}), ArrayShape(F32, {3, 4}), ArrayShape(S32, {3, 4})).ok());
  EXPECT_TRUE(CheckCall(ArrayShape(F32, {0, 16}), ArrayShape(F32, {0, 4}), ArrayShape(S32, {0, 4})).ok());
}

TEST(NativeBoundsTest, TopKThatWouldReachOutside) {
  const auto vector = ArrayShape(F32, {16});
  const auto refused = [](const absl::Status& status) { return status.code() == absl::StatusCode::kInvalidArgument; };
  for (int64_t k : {0, 17, 1 << 20}) {
    EXPECT_TRUE(refused(CheckCall(vector, ArrayShape(F32, {k}), ArrayShape(S32, {k})))) << k;
  }
  const int64_t most = (int64_t{1} << 31) - 1;
  EXPECT_TRUE(CheckCall(ArrayShape(F32, {most}), ArrayShape(F32, {4}), ArrayShape(S32, {4})).ok());
  EXPECT_TRUE(refused(CheckCall(ArrayShape(F32, {most + 1}), ArrayShape(F32, {4}), ArrayShape(S32, {4}))));
  EXPECT_TRUE(refused(CheckCall(vector, ArrayShape(F32, {4}), ArrayShape(S32, {3}))));
  EXPECT_TRUE(refused(CheckCall(vector, ArrayShape(F32, {4}), ArrayShape(xla::S8, {4}))));
  EXPECT_TRUE(refused(CheckCall(vector, ArrayShape(F64, {4}), ArrayShape(S32, {4}))));
  EXPECT_TRUE(refused(CheckCall(vector, ArrayShape(F32, {900, 2}), ArrayShape(S32, {900, 2}))));
  EXPECT_TRUE(refused(CheckCall(ArrayShape(F32, {3, 16}), ArrayShape(F32, {4, 2}), ArrayShape(S32, {4, 2}))));
  EXPECT_TRUE(refused(CheckCall(ArrayShape(F64, {16}), ArrayShape(F64, {4}), ArrayShape(S32, {4}))));
  EXPECT_TRUE(refused(CheckCall(ArrayShape(F32, {}), ArrayShape(F32, {}), ArrayShape(S32, {}))));
  EXPECT_TRUE(refused(CheckCall(ArrayShape(F32, {2, 3, 16}), ArrayShape(F32, {2, 3, 4}), ArrayShape(S32, {2, 3, 4}))));
  EXPECT_TRUE(refused(CheckCall(vector, ArrayShape(F32, {4}))));
  EXPECT_TRUE(refused(CheckCall(vector, TupleShape({ArrayShape(F32, {4})}))));
  EXPECT_FALSE(CheckCall(vector, TupleShape({vector, TupleShape({})})).ok());
}

TEST(NativeBoundsTest, SortsBecomeStable) {
  ModuleBuilder builder;
  auto* x = builder.Parameter(builder.entry(), 0, ArrayShape(F32, {16}));
  EXPECT_FALSE(MakeSortsStable(builder.module()));
  auto* sort = builder.Add(builder.entry(), "sort", ArrayShape(F32, {16}), {x});
  EXPECT_TRUE(MakeSortsStable(builder.module()));
  EXPECT_TRUE(sort->is_stable());
  EXPECT_FALSE(MakeSortsStable(builder.module()));
}

}  // namespace
}  // namespace switchtower
