#include "base/utf8.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

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
