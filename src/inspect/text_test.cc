#include "inspect/text.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(AgeText(999), "999 us");
  EXPECT_EQ(AgeText(450'000), "450 ms");
  EXPECT_EQ(AgeText(3'240'000), "3.2 s");
  EXPECT_EQ(AgeText(int64_t{600} * 1000 * 1000), "10 min");
  EXPECT_EQ(SessionText(0xabc), "0000000000000abc");
}

TEST(Text, Lists) {
  EXPECT_EQ(RangesText({}), "");
  EXPECT_EQ(RangesText({7, 0, 1, 2, 9, 8}), "0-2, 7-9");
  EXPECT_EQ(RangesText({4}), "4");
  EXPECT_EQ(ListText({"a", "b"}), "a, b");
  EXPECT_EQ(ListText({"a", "b", "c", "d", "e"}), "a, b, c, d, e");  // "and 1 more" would be no shorter
  EXPECT_EQ(ListText({"a", "b", "c", "d", "e", "f"}), "a, b, c, d and 2 more");
}

}  // namespace
}  // namespace switchtower
