#include "cli/core_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<int> kCores{2, 3, 6, 7};

TEST(CoreShare, FewWorkersGetCoresOfTheirOwn) {
  EXPECT_THAT(ShareOfCores(kCores, 0, 2).cores, ElementsAre(2, 3));
  EXPECT_THAT(ShareOfCores(kCores, 1, 2).cores, ElementsAre(6, 7));
  EXPECT_EQ(ShareOfCores(kCores, 1, 2).threads, 2);
  EXPECT_THAT(ShareOfCores(kCores, 3, 4).cores, ElementsAre(7));
}

TEST(CoreShare, ManyWorkersShareACore) {
  EXPECT_THAT(ShareOfCores(kCores, 1, 8).cores, ElementsAre(3));
  EXPECT_THAT(ShareOfCores(kCores, 5, 8).cores, ElementsAre(3));
  EXPECT_EQ(ShareOfCores(kCores, 5, 8).threads, 1);
}

TEST(CoreShare, WhatDoesNotDivideIsLeftToTheKernel) {
  EXPECT_THAT(ShareOfCores(kCores, 0, 1).cores, IsEmpty());
  EXPECT_EQ(ShareOfCores(kCores, 0, 1).threads, 4);
  EXPECT_THAT(ShareOfCores(kCores, 2, 3).cores, IsEmpty());
  EXPECT_EQ(ShareOfCores(kCores, 2, 3).threads, 1);
  EXPECT_THAT(ShareOfCores(kCores, 5, 6).cores, IsEmpty());
}

TEST(CoreShare, ThisProcessHasCores) { EXPECT_THAT(UsableCores(), testing::Not(IsEmpty())); }

}  // namespace
}  // namespace switchtower
