#include "inspect/text.h"

#include <gtest/gtest.h>

#include "inspect/utf8.h"

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

TEST(Utf8, KeepsTextAndReplacesTheRest) {
  EXPECT_EQ(ToUtf8("jit_ü\xe2\x82\xac\xf0\x9f\x9a\x82"), "jit_ü\xe2\x82\xac\xf0\x9f\x9a\x82");
  EXPECT_EQ(ToUtf8("a\xff\x62"), "a?b");
  EXPECT_EQ(ToUtf8("\xc3"), "?");                 // cut off
  EXPECT_EQ(ToUtf8("\xc0\x80"), "??");            // overlong
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80"), "????");  // beyond U+10FFFF
}

}  // namespace
}  // namespace switchtower
