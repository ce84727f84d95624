#include "controller/schedule/session_launches.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using enum SessionLaunches::Standing::State;

TEST(SessionLaunches, ALaunchIsUnderWayUntilItEnds) {
  SessionLaunches launches;
  launches.Sent(1, {7, 10});
  launches.Sent(2, {7, 11});
  EXPECT_EQ(launches.Of(1).state, kUnderWay);
  EXPECT_EQ(launches.Of(1).id, (LaunchId{7, 10}));
  launches.Ended(2, /*well=*/true);
  EXPECT_EQ(launches.Of(2).state, kEndedWell);
  EXPECT_EQ(launches.Of(1).state, kUnderWay);
}

TEST(SessionLaunches, NothingIsKnownOfWhatMayHaveFailed) {
  SessionLaunches launches;
  for (uint64_t number : {1, 2, 3, 4}) launches.Sent(number, {7, number});
  launches.Ended(1, /*well=*/true);
  launches.Ended(2, /*well=*/false);
  launches.Ended(3, /*well=*/true);
  EXPECT_EQ(launches.Of(1).state, kUnknown);
  EXPECT_EQ(launches.Of(2).state, kUnknown);
  EXPECT_EQ(launches.Of(3).state, kEndedWell);
  EXPECT_EQ(launches.Of(4).state, kUnderWay);
  launches.Failed(5);  // never sent
  EXPECT_EQ(launches.Of(4).state, kUnknown);
  EXPECT_EQ(launches.Of(5).state, kUnknown);
}

TEST(SessionLaunches, WhatNoLaunchMakesIsUnknown) { EXPECT_EQ(SessionLaunches().Of(0).state, kUnknown); }

TEST(SessionLaunches, OneQuestionMakesOneLaunchAwaited) {
  SessionLaunches launches;
  EXPECT_FALSE(launches.TakeAsked());
  launches.Asked();
  launches.Asked();
  EXPECT_TRUE(launches.TakeAsked());
  EXPECT_FALSE(launches.TakeAsked());
}

}  // namespace
}  // namespace switchtower
