#include "worker/exec/strided_copy.h"

#include <numeric>
#include <string>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

std::string Counting(int n) {
  std::string bytes(n, '\0');
  std::iota(bytes.begin(), bytes.end(), 0);
  return bytes;
}

TEST(CopyBox, MovesAnInnerBox) {
  const std::string from = Counting(12);  // 3 x 4
  std::string to(6, '\x7f');              // 2 x 3
  CopyBox(from.data(), {3, 4}, Box{{1, 2}, {2, 2}}, to.data(), {2, 3}, Box{{0, 1}, {2, 2}}, 1);
  EXPECT_EQ(to, std::string("\x7f\x06\x07\x7f\x0a\x0b", 6));
}

TEST(CopyBox, WholeRowsAreOneRun) {
  const std::string from = Counting(24);
  std::string to(8, '\0');
  CopyBox(from.data(), {3, 2, 4}, Box{{1, 0, 0}, {1, 2, 4}}, to.data(), {1, 2, 4}, Box{{0, 0, 0}, {1, 2, 4}}, 1);
  EXPECT_EQ(to, from.substr(8, 8));
}

TEST(CopyBox, ScalarsAndEmptyBoxes) {
  const std::string from = Counting(4);
  std::string to(4, '\x7f');
  CopyBox(from.data(), {}, Box{}, to.data(), {}, Box{}, 4);
  EXPECT_EQ(to, from);
  CopyBox(from.data(), {4}, Box{{4}, {0}}, to.data(), {4}, Box{{0}, {0}}, 1);
  EXPECT_EQ(to, from);
}

// Against the definition, for all boxes of a small array of two-byte elements.
TEST(CopyBox, AgreesWithTheDefinition) {
  const std::vector<int64_t> dims = {2, 3, 2};
  const std::string from = Counting(24);
  for (int64_t a = 0; a < 2; ++a) {
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t size = 1; size <= 3 - b; ++size) {
        const Box box{{a, b, 0}, {2 - a, size, 2}};
        std::string to(static_cast<size_t>(BoxElements(box)) * 2, '\0'), expected;
        CopyBox(from.data(), dims, box, to.data(), box.size, Box{{0, 0, 0}, box.size}, 2);
        for (int64_t i = a; i < 2; ++i) {
          for (int64_t j = b; j < b + size; ++j) {
            for (int64_t k = 0; k < 2; ++k) expected += from.substr(static_cast<size_t>(((i * 3 + j) * 2 + k) * 2), 2);
          }
        }
        EXPECT_EQ(to, expected);
      }
    }
  }
}

TEST(CheckBoxInside, SeesOverflowingBoxes) {
  const Shape shape{DType::kU8, {4}};
  EXPECT_TRUE(CheckBoxInside(Box{{1}, {3}}, shape).ok());
  EXPECT_FALSE(CheckBoxInside(Box{{1}, {4}}, shape).ok());
  EXPECT_FALSE(CheckBoxInside(Box{{INT64_MAX}, {INT64_MAX}}, shape).ok());
  EXPECT_FALSE(CheckBoxInside(Box{{-1}, {1}}, shape).ok());
  EXPECT_FALSE(CheckBoxInside(Box{{0, 0}, {1, 1}}, shape).ok());
}

TEST(Strided, SpreadsAndMeasures) {
  const Shape shape{DType::kU8, {2, 3}};
  EXPECT_EQ(*StridedRegionBytes(shape, {1, 2}), 6);  // column major
  std::string region(6, '\0');
  SpreadStrided("abcdef", shape, {1, 2}, region.data());
  EXPECT_EQ(region, "adbecf");
  EXPECT_EQ(*StridedRegionBytes(shape, {10, 2}), 15);
  EXPECT_EQ(*StridedRegionBytes(Shape{DType::kF32, {0, 3}}, {12, 4}), 0);
  EXPECT_FALSE(StridedRegionBytes(shape, {-3, 1}).ok());
  EXPECT_FALSE(StridedRegionBytes(shape, {3}).ok());
  EXPECT_FALSE(StridedRegionBytes(shape, {INT64_MAX, INT64_MAX}).ok());
  EXPECT_FALSE(StridedRegionBytes(shape, {int64_t{1} << 40, 1}).ok());
  EXPECT_TRUE(AreDense(shape, {3, 1}));
  EXPECT_FALSE(AreDense(shape, {1, 2}));
  EXPECT_TRUE(AreDense(Shape{DType::kU8, {1, 3}}, {999, 1}));
}

TEST(Strided, StridesThatTakeNoStepMayBeAnything) {
  const Shape shape{DType::kU8, {1, 3, 1}};
  for (int64_t wild : {int64_t{-8}, int64_t{0}, INT64_MAX, INT64_MIN}) {
    ASSERT_TRUE(StridedRegionBytes(shape, {wild, 2, wild}).ok()) << wild;
    EXPECT_EQ(*StridedRegionBytes(shape, {wild, 2, wild}), 5);
    std::string region(5, '-');
    SpreadStrided("abc", shape, {wild, 2, wild}, region.data());
    EXPECT_EQ(region, "a-b-c");
  }
}

}  // namespace
}  // namespace switchtower
