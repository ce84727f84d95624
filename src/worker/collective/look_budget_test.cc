#include "worker/collective/look_budget.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(LookBudget, LongWaitsMakeItSleepSoon) {
  LookBudget budget;
  EXPECT_EQ(budget.looks(), LookBudget::kMax);
  budget.Slept(std::chrono::milliseconds(1));
  EXPECT_EQ(budget.looks(), LookBudget::kMax / 2);
  for (int n = 0; n < 20; ++n) budget.Slept(std::chrono::milliseconds(1));
  EXPECT_EQ(budget.looks(), LookBudget::kMin);
}

TEST(LookBudget, ShortSleepsMakeItLookLonger) {
  LookBudget budget;
  for (int n = 0; n < 20; ++n) budget.Slept(std::chrono::milliseconds(1));
  budget.Slept(std::chrono::microseconds(20));
  EXPECT_EQ(budget.looks(), 2 * LookBudget::kMin);
  for (int n = 0; n < 20; ++n) budget.Slept(std::chrono::microseconds(20));
  EXPECT_EQ(budget.looks(), LookBudget::kMax);
}

}  // namespace
}  // namespace switchtower
