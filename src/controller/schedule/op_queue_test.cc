#include "controller/schedule/op_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Op Launch(std::vector<uint64_t> arguments, std::vector<uint64_t> results, std::vector<uint32_t> donated = {}) {
  static const auto program = std::make_shared<PlacedProgram>();
  LaunchOp launch;
  launch.program = program;
  for (uint64_t id : arguments) launch.arguments.push_back({id});
  for (uint64_t id : results) launch.results.push_back({id});
  launch.donated = std::move(donated);
  return Op{{}, 0, 0, std::move(launch)};
}
Op Delete(std::vector<uint64_t> arrays) {
  DeleteOp::Group group;
  for (uint64_t id : arrays) group.arrays.push_back({id});
  return Op{{}, 0, 0, DeleteOp{{group}}};
}
Op Read(uint64_t array) { return Op{{}, 0, 0, ReadOp{.array = {array}}}; }

class OpQueueTest : public ::testing::Test {
 protected:
  void Add(Op op) { queue.Add(std::move(op), ++arrivals, /*in_turn=*/true); }
  std::vector<uint64_t> Free() const {
    std::vector<uint64_t> arrivals;
    for (const auto& [arrival, entry] : queue.free_in_turn()) arrivals.push_back(arrival);
    return arrivals;
  }
  OpQueue queue;
  uint64_t arrivals = 0;
};

TEST_F(OpQueueTest, WhatSharesNothingIsFree) {
  Add(Launch({1}, {2}));
  Add(Launch({2}, {3}));
  Add(Launch({9}, {10}));
  Add(Launch({9}, {11}));  // both only read 9
  EXPECT_THAT(Free(), ElementsAre(1, 3, 4));
  queue.Remove(3);
  queue.Remove(1);
  EXPECT_THAT(Free(), ElementsAre(2, 4));
}

TEST_F(OpQueueTest, ADeleteWaitsForAllThatUseTheArray) {
  Add(Launch({1}, {2}));
  Add(Read(1));
  Add(Delete({1}));
  EXPECT_THAT(Free(), ElementsAre(1, 2));
  queue.Remove(2);
  EXPECT_THAT(Free(), ElementsAre(1));
  queue.Remove(1);
  EXPECT_THAT(Free(), ElementsAre(3));
}

TEST_F(OpQueueTest, ADonationIsAWriteAndItsOwnReadNoObstacle) {
  Add(Launch({1, 1, 2}, {3}));
  Add(Launch({1, 2}, {4}, {0}));
  Add(Read(2));
  Add(Read(1));
  EXPECT_THAT(Free(), ElementsAre(1, 3));
  queue.Remove(1);
  EXPECT_THAT(Free(), ElementsAre(2, 3));
  queue.Remove(2);
  EXPECT_THAT(Free(), ElementsAre(3, 4));
}

TEST_F(OpQueueTest, ConflictsAreSeenBeforeAnOperationIsQueued) {
  Add(Launch({1}, {2}));
  EXPECT_FALSE(queue.Conflicts(Read(1)));
  EXPECT_TRUE(queue.Conflicts(Read(2)));
  EXPECT_TRUE(queue.Conflicts(Delete({1})));
  EXPECT_FALSE(queue.Conflicts(Delete({7})));
  EXPECT_TRUE(queue.Uses(ArrayId{1}));
  EXPECT_FALSE(queue.Uses(ArrayId{7}));
  queue.Remove(1);
  EXPECT_FALSE(queue.Uses(ArrayId{1}));
  EXPECT_FALSE(queue.Conflicts(Delete({1})));
}

TEST_F(OpQueueTest, AnExecutableIsReleasedAfterItsLaunches) {
  auto program = std::make_shared<PlacedProgram>();
  LaunchOp launch;
  launch.program = program;
  Add(Op{{}, 0, 0, std::move(launch)});
  Add(Op{{}, 0, 0, ReleaseOp{program}});
  EXPECT_THAT(Free(), ElementsAre(1));
  queue.Remove(1);
  EXPECT_THAT(Free(), ElementsAre(2));
}

// Parameters that every step reads and nobody writes don't make the record of their readers grow.
TEST_F(OpQueueTest, LongQueuesOfReadersStaySmall) {
  Add(Launch({1}, {100}));
  for (int i = 0; i < 10'000; ++i) {
    Add(Launch({1}, {1000 + arrivals}));
    queue.Remove(arrivals - 1);
  }
  EXPECT_EQ(queue.size(), 1u);
  Add(Delete({1}));
  EXPECT_THAT(Free(), ElementsAre(arrivals - 1));
  queue.Remove(arrivals - 1);
  queue.Remove(arrivals);
  EXPECT_TRUE(queue.empty());
  EXPECT_THAT(Free(), IsEmpty());
}

TEST_F(OpQueueTest, TheTwoKindsOfTurnAreKeptApart) {
  queue.Add(Read(1), 1, /*in_turn=*/false);
  queue.Add(Launch({1}, {2}), 2, /*in_turn=*/true);
  queue.Add(Read(2), 3, /*in_turn=*/false);
  EXPECT_EQ(queue.free_at_once().size(), 1u);
  queue.Remove(2);
  EXPECT_EQ(queue.free_at_once().size(), 2u);
  EXPECT_EQ(queue.TakeAll().size(), 2u);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace switchtower
