#include "controller/schedule/session_flow.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(SessionFlow, ResumesOnceBelowTheBound) {
  SessionFlow flow;
  flow.Began(3);
  int resumed = 0;
  flow.WhenBelow(2, [&] { ++resumed; });
  flow.Ended();
  EXPECT_EQ(resumed, 0);
  flow.Ended();
  flow.Ended();
  EXPECT_EQ(resumed, 1);
  flow.WhenBelow(2, [&] { ++resumed; });
  EXPECT_EQ(resumed, 2);
}

TEST(SessionFlow, WhatWasAskedForCountsButIsNoLaunch) {
  SessionFlow flow;
  flow.Began();
  flow.Asked(2);
  EXPECT_EQ(flow.launches(), 1u);
  EXPECT_EQ(flow.under_way(), 3u);
  int resumed = 0;
  flow.WhenBelow(2, [&] { ++resumed; });
  flow.Ended();
  EXPECT_EQ(resumed, 0);
  flow.Answered();
  EXPECT_EQ(resumed, 1);
}

TEST(SessionFlow, AProgramCountsByItsBytesUntilItIsCompiled) {
  SessionFlow flow;
  const uint64_t small = flow.CompileBegan(10), large = flow.CompileBegan(10 * SessionFlow::kBytesPerLaunch);
  EXPECT_EQ(flow.under_way(), 12u);
  EXPECT_EQ(flow.launches(), 0u);
  EXPECT_EQ(flow.compiles().running, 2u);
  flow.CompileEnded(small);
  EXPECT_EQ(flow.under_way(), 11u);
  flow.CompileEnded(large);
  EXPECT_EQ(flow.under_way(), 0u);
  EXPECT_EQ(flow.compiles().running, 0u);
}

}  // namespace
}  // namespace switchtower
