#include "resource_manager/silence_watch.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using std::chrono::milliseconds;

TEST(SilenceWatch, WhoStoodStillBlamesNobodyAtOnce) {
  SilenceWatch watch(milliseconds(1000));
  SilenceWatch::Time now{};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(watch.CanBlame(now += milliseconds(200)));
  EXPECT_TRUE(watch.CanBlame(now += milliseconds(500)));
  EXPECT_FALSE(watch.CanBlame(now += milliseconds(3000)));
  EXPECT_TRUE(watch.CanBlame(now += milliseconds(200)));
  EXPECT_FALSE(watch.CanBlame(now += milliseconds(501)));
}

TEST(SilenceWatch, WhoIsAlwaysLateBlamesAllTheSame) {
  SilenceWatch watch(milliseconds(1000));
  SilenceWatch::Time now{};
  int blames = 0;
  for (int i = 0; i < 10; ++i) blames += watch.CanBlame(now += milliseconds(2000)) ? 1 : 0;
  EXPECT_EQ(blames, 5);
}

}  // namespace
}  // namespace switchtower
