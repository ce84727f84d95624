#include "worker/exec/leftover_launches.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using std::chrono::seconds;

LaunchId Id(uint64_t number) { return {1, number}; }
LeftoverLaunches::Time At(int s) { return LeftoverLaunches::Time(seconds(s)); }

TEST(LeftoverLaunchesTest, OneThatNeverEndsIsStuckAfterTheGrace) {
  LeftoverLaunches leftovers{seconds(10)};
  EXPECT_EQ(leftovers.Stuck(At(100)), std::nullopt);
  leftovers.Add({Id(7)}, At(0));
  EXPECT_EQ(leftovers.Stuck(At(9)), std::nullopt);
  EXPECT_EQ(leftovers.Stuck(At(10)), Id(7));
  leftovers.Ended(Id(7), At(11));
  EXPECT_EQ(leftovers.Stuck(At(100)), std::nullopt);
}

TEST(LeftoverLaunchesTest, AQueueThatMovesIsNotStuck) {
  LeftoverLaunches leftovers{seconds(10)};
  leftovers.Add({Id(3), Id(1), Id(2)}, At(0));
  leftovers.Ended(Id(1), At(8));
  leftovers.Ended(Id(9), At(16));  // somebody else's
  EXPECT_EQ(leftovers.Stuck(At(17)), std::nullopt);
  EXPECT_EQ(leftovers.Stuck(At(18)), Id(2));
}

TEST(LeftoverLaunchesTest, NobodyElsesProgressHelps) {
  LeftoverLaunches leftovers{seconds(10)};
  leftovers.Add({Id(1)}, At(0));
  leftovers.Add({Id(1), Id(2), Id(3)}, At(1));  // a controller's end after its session's
  leftovers.Ended(Id(2), At(9));
  EXPECT_EQ(leftovers.Stuck(At(10)), Id(1));
  leftovers.Add({}, At(10));
  leftovers.Ended(Id(3), At(11));
  leftovers.Ended(Id(1), At(12));
  EXPECT_EQ(leftovers.Stuck(At(100)), std::nullopt);
}

}  // namespace
}  // namespace switchtower
