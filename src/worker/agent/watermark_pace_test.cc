#include "worker/agent/watermark_pace.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class WatermarkPaceTest : public testing::Test {
 protected:
  std::optional<WatermarkPace::Time> End(uint64_t ahead) { return pace_.OnEnded({{1, ++last_}, ahead}, now_); }

  WatermarkPace pace_;
  WatermarkPace::Time now_{std::chrono::hours(1)};
  uint64_t last_ = 0;
};

TEST_F(WatermarkPaceTest, TheFirstIsToldAtOnce) {
  const auto due = End(0);
  ASSERT_EQ(due, now_);
  EXPECT_EQ(pace_.Take(*due, now_)->completed, (LaunchId{1, 1}));
}

TEST_F(WatermarkPaceTest, WhereFewAreLeftOneVisitAMillisecondTellsAll) {
  pace_.Take(*End(0), now_);
  now_ += microseconds(100);
  const auto due = End(3);
  EXPECT_EQ(due, now_ + microseconds(900));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(End(2).has_value());
  EXPECT_EQ(pace_.Take(*due, *due)->completed.number, last_);
}

TEST_F(WatermarkPaceTest, WhereManyAreLeftItWaitsLonger) {
  pace_.Take(*End(0), now_);
  EXPECT_EQ(End(100), now_ + milliseconds(5));
}

TEST_F(WatermarkPaceTest, WorkersThatToldAtDifferentTimesTellTogetherNext) {
  WatermarkPace other;
  pace_.Take(*End(0), now_);
  const WatermarkPace::Time later = now_ + microseconds(700);
  other.Take(*other.OnEnded({{1, 1}, 0}, later), later);
  now_ += microseconds(800);
  EXPECT_EQ(End(100), other.OnEnded({{1, 2}, 100}, now_));
  EXPECT_EQ(End(1), other.OnEnded({{1, 3}, 1}, now_));
}

TEST_F(WatermarkPaceTest, WhatIsAwaitedIsToldAtOnce) {
  pace_.Take(*End(0), now_);
  const auto later = End(100);
  const auto due = pace_.OnEnded({{1, ++last_}, 100, /*awaited=*/true}, now_);
  ASSERT_EQ(due, now_);
  EXPECT_EQ(pace_.Take(*due, now_)->completed.number, last_);
  EXPECT_FALSE(pace_.Take(*later, *later).has_value());
}

TEST_F(WatermarkPaceTest, MoreEndsBringTheVisitForward) {
  pace_.Take(*End(0), now_);
  const auto late = End(100);
  std::optional<WatermarkPace::Time> early;
  for (int ended = 2; ended <= 25; ++ended) {
    EXPECT_FALSE(early.has_value());
    early = End(100);
  }
  ASSERT_EQ(early, now_ + milliseconds(1));
  EXPECT_EQ(pace_.Take(*early, *early)->completed.number, last_);
  EXPECT_FALSE(pace_.Take(*late, *late).has_value());
}

TEST_F(WatermarkPaceTest, AVisitThatWasReplacedTellsNothing) {
  pace_.Take(*End(0), now_);
  const auto late = End(100);
  const auto early = End(1);
  ASSERT_NE(early, late);
  EXPECT_TRUE(pace_.Take(*early, *early).has_value());
  EXPECT_FALSE(pace_.Take(*late, *late).has_value());
}

TEST_F(WatermarkPaceTest, OfVisitsAtTheSameTimeTheFirstTells) {
  pace_.Take(*End(0), now_);
  const auto late = End(100);
  const auto early = End(1);
  ASSERT_TRUE(pace_.Take(*early, *early).has_value());
  now_ = *early;
  ASSERT_EQ(End(100), late);
  EXPECT_TRUE(pace_.Take(*late, *late).has_value());
  EXPECT_FALSE(pace_.Take(*late, *late).has_value());
}

}  // namespace
}  // namespace switchtower
