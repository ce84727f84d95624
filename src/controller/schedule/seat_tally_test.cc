#include "controller/schedule/seat_tally.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

// Two seats of two devices, one of three.
const std::vector<int32_t> kSizes = {2, 2, 3};
DeviceListPtr List(std::vector<Place> places) { return DeviceList::Make(std::move(places), kSizes); }
const DeviceListPtr kAll = List({{0, 0}, {0, 1}, {1, 0}, {1, 1}});
const DeviceListPtr kMixed = List({{1, 1}, {2, 0}, {2, 2}, {1, 0}});

bool AllAtMost(const SeatTally<int64_t>& tally, const DeviceList& devices, int64_t limit,
               const SeatTally<int64_t>* other = nullptr) {
  return tally.AllOf(devices, other, [limit](int64_t sum) { return sum <= limit; });
}

TEST(DeviceListTest, TellsWholeSeatsFromOthers) {
  ASSERT_EQ(kAll->whole_seats.size(), 2u);
  EXPECT_TRUE(kAll->loose.empty());
  ASSERT_EQ(kMixed->whole_seats.size(), 1u);
  EXPECT_EQ(kMixed->whole_seats[0].seat, 1);
  EXPECT_EQ(kMixed->whole_seats[0].devices, 2);
  EXPECT_EQ(kMixed->loose, (std::vector<Place>{{2, 0}, {2, 2}}));
  EXPECT_EQ(kMixed->seats, (std::vector<int32_t>{1, 2}));
  // Nobody said how many devices a seat has.
  EXPECT_EQ(DeviceList::Make({{0, 0}, {0, 1}})->loose.size(), 2u);
}

TEST(SeatTallyTest, SumsOfWholeSeatsAndOfDevicesAddUp) {
  SeatTally<int64_t> tally;
  tally.Add(*kAll, 3);
  tally.Add(*kMixed, 4);
  tally.AddAt({0, 1}, 5);
  EXPECT_EQ(tally.At({0, 0}), 3);
  EXPECT_EQ(tally.At({0, 1}), 8);
  EXPECT_EQ(tally.At({1, 0}), 7);
  EXPECT_EQ(tally.At({2, 0}), 4);
  EXPECT_EQ(tally.At({2, 1}), 0);
  EXPECT_EQ(tally.At({9, 9}), 0);
  EXPECT_TRUE(AllAtMost(tally, *kAll, 8));
  EXPECT_FALSE(AllAtMost(tally, *kAll, 7));  // device 1 of seat 0 alone
  EXPECT_TRUE(AllAtMost(tally, *kMixed, 7));
  EXPECT_FALSE(AllAtMost(tally, *kMixed, 6));
  tally.AddAt({0, 1}, -5);
  tally.Add(*kMixed, -4);
  EXPECT_TRUE(AllAtMost(tally, *kAll, 3));
  tally.Clear(0);
  EXPECT_EQ(tally.At({0, 1}), 0);
  EXPECT_EQ(tally.At({1, 1}), 3);
}

TEST(SeatTallyTest, TwoTalliesAreJudgedTogether) {
  SeatTally<int64_t> used, queued;
  used.Add(*kAll, 3);
  queued.AddAt({1, 1}, 2);
  EXPECT_FALSE(AllAtMost(used, *kAll, 4, &queued));
  EXPECT_TRUE(AllAtMost(used, *kAll, 5, &queued));
  EXPECT_TRUE(AllAtMost(used, *List({{0, 0}, {1, 0}}), 3, &queued));
}

// What a device is ahead of its seat by may be less than nothing: it had its launch before the others.
TEST(SeatTallyTest, ADeviceMayBeBelowItsSeat) {
  SeatTally<int64_t> tally;
  tally.Add(*kAll, 1);
  tally.AddAt({0, 0}, -1);
  tally.AddAt({0, 1}, -1);
  EXPECT_TRUE(AllAtMost(tally, *List({{0, 0}, {0, 1}}), 0));
  EXPECT_FALSE(AllAtMost(tally, *kAll, 0));
}

}  // namespace
}  // namespace switchtower
