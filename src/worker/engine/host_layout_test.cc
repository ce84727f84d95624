#include "worker/engine/host_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::ElementsAre;

TEST(HostLayoutTest, CopiesBetweenStrides) {
  const int16_t source[] = {1, 2, 3, 4, 5, 6};
  int16_t columns[6] = {};
  const Shape shape{DType::kS16, {2, 3}};
  CopyElements(shape, reinterpret_cast<const char*>(source), {6, 2}, reinterpret_cast<char*>(columns), {2, 4});
  EXPECT_THAT(columns, ElementsAre(1, 4, 2, 5, 3, 6));
  // Backwards.
  int16_t reversed[3] = {};
  CopyElements({DType::kS16, {3}}, reinterpret_cast<const char*>(source + 2), {-2}, reinterpret_cast<char*>(reversed),
               {2});
  EXPECT_THAT(reversed, ElementsAre(3, 2, 1));
}

TEST(HostLayoutTest, CopiesScalarsAndNothing) {
  const int32_t source = 7;
  int32_t destination = 0;
  CopyElements({DType::kS32, {}}, reinterpret_cast<const char*>(&source), {}, reinterpret_cast<char*>(&destination),
               {});
  EXPECT_EQ(destination, 7);
  CopyElements({DType::kS32, {0, 2}}, nullptr, {8, 4}, nullptr, {8, 4});
}

TEST(HostLayoutTest, PacksAndUnpacks) {
  const char values[] = {1, -1, -8, 7, -2};
  char packed[3] = {};
  EXPECT_EQ(PackedBytes(DType::kS4, 5), 3);
  PackElements(DType::kS4, values, 5, packed);
  EXPECT_THAT(packed, ElementsAre(static_cast<char>(0xf1), 0x78, 0x0e));
  char back[5] = {};
  UnpackElements(DType::kS4, packed, 5, back);
  EXPECT_THAT(back, ElementsAre(1, -1, -8, 7, -2));
  UnpackElements(DType::kU4, packed, 5, back);
  EXPECT_THAT(back, ElementsAre(1, 15, 8, 7, 14));
  const char twos[] = {1, -2, 0, -1, 1};
  PackElements(DType::kS2, twos, 5, packed);
  UnpackElements(DType::kS2, packed, 5, back);
  EXPECT_THAT(back, ElementsAre(1, -2, 0, -1, 1));
}

TEST(HostLayoutTest, NormalizesHighBits) {
  char values[] = {0x0f, static_cast<char>(0xf7)};
  NormalizeElements(DType::kS4, values, 2);
  EXPECT_THAT(values, ElementsAre(-1, 7));
}

}  // namespace
}  // namespace switchtower
