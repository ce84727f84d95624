#include "worker/linalg/operands.h"

#include <gtest/gtest.h>

#include <limits>

namespace switchtower {
namespace {

TEST(OperandsTest, ReadsABatch) {
  const auto batch = linalg::Matrices("a", {2, 3, 4, 5});
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->count, 6);
  EXPECT_EQ(batch->rows, 4);
  EXPECT_EQ(batch->cols, 5);
  EXPECT_EQ(batch->size(), 20);
  EXPECT_EQ(linalg::Matrices("a", {3, 0, 4})->leading(), 1);
}

TEST(OperandsTest, RefusesWhatLapackCannotTake) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_FALSE(linalg::Matrices("a", {}).ok());
  EXPECT_FALSE(linalg::Matrices("a", {3}).ok());
  EXPECT_FALSE(linalg::Matrices("a", {kHuge, 0}).ok());
  EXPECT_FALSE(linalg::Matrices("a", {0, kHuge}).ok());
  EXPECT_FALSE(linalg::Matrices("a", {kHuge, kHuge, 0, 4}).ok());  // the batch overflows
  EXPECT_FALSE(linalg::SquareMatrices("a", {3, 4}).ok());
  EXPECT_TRUE(linalg::CheckDims("x", {2, 7}, {2, 3, 4}, {7}).ok());
  EXPECT_FALSE(linalg::CheckDims("x", {2, 8}, {2, 3, 4}, {7}).ok());
  EXPECT_FALSE(linalg::CheckDims("x", {1, 7}, {2, 3, 4}, {7}).ok());
  EXPECT_FALSE(linalg::CheckDims("x", {7}, {2, 3, 4}, {7}).ok());
  EXPECT_FALSE(linalg::CheckDims("x", {2, 7, 1}, {2, 3, 4}, {7}).ok());
  EXPECT_FALSE(linalg::Letter("uplo", 0, "LU").ok());
  EXPECT_FALSE(linalg::Letter("uplo", 'X', "LU").ok());
  EXPECT_FALSE(linalg::CheckAddressable("gesdd", 3e9).ok());
}

TEST(OperandsTest, WorkspaceIsNeverBelowTheMinimum) {
  const auto size = [](int64_t minimum, float answer) {
    return linalg::WorkspaceSize<float>("geqrf", minimum, [&](float* out) {
      *out = answer;
      return 0;
    });
  };
  EXPECT_EQ(*size(10, 320), 320);
  EXPECT_EQ(*size(16777217, 16777216), 16777217);  // a float can't hold it
  EXPECT_EQ(*size(0, -1e9), 1);
  EXPECT_EQ(*size(5, 1e20), std::numeric_limits<int>::max());
  EXPECT_FALSE(size(int64_t{1} << 31, 1).ok());
}

}  // namespace
}  // namespace switchtower
