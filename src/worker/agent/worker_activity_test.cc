// AskActivity: what a worker says of itself while its devices wait.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "worker/agent/testing_worker.h"

namespace switchtower {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class WorkerActivityTest : public testing::Test {
 protected:
  WorkerActivityTest() {
    cluster_.DefineGang(1, {a0_});
    cluster_.DefineGang(2, {b0_});
    cluster_.Load("sum", 2, 1);
    cluster_.Load("add_one", 1, 1);
  }
  // A put whose bytes the test sends when it likes.
  void Announce(uint64_t array, PhysicalDevice device, uint64_t stream) {
    PutArray put;
    put.array = TestCluster::Key(array);
    put.devices = {device};
    put.shard_shape = Shape{DType::kF32, {2}};
    put.layout = Layout::Default(1);
    put.stream = {stream};
    put.stream_bytes = 8;
    cluster_.SendAll(put);
  }
  // Asks until the answer is as wanted; the devices' threads are not the test's.
  WorkerActivity Until(int node, const std::function<bool(const WorkerActivity&)>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    WorkerActivity activity = cluster_.controller(node).Activity();
    while (!wanted(activity) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      activity = cluster_.controller(node).Activity();
    }
    return activity;
  }

  TestCluster cluster_{2};
  const PhysicalDevice a0_ = cluster_.Device(0, 0), b0_ = cluster_.Device(1, 0);
};

TEST_F(WorkerActivityTest, NothingToTellOfAnIdleWorker) {
  cluster_.Put(1, {a0_}, {1, 2});
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  ASSERT_TRUE(cluster_.ReadFloats(2, a0_).ok());
  const WorkerActivity activity =
      Until(0, [](const WorkerActivity& activity) { return activity.devices[0].tasks.empty(); });
  ASSERT_THAT(activity.devices, SizeIs(2));
  EXPECT_THAT(activity.devices[0].tasks, IsEmpty());
  EXPECT_EQ(activity.devices[0].queued, 0u);
  EXPECT_EQ(activity.devices[0].bytes, 16u);
  EXPECT_EQ(activity.devices[1].bytes, 0u);
  EXPECT_THAT(activity.uploads, IsEmpty());
  EXPECT_THAT(activity.transfers, IsEmpty());
  EXPECT_THAT(activity.collectives, IsEmpty());
}

TEST_F(WorkerActivityTest, TheHeadNamesTheArgumentsThatAreMissing) {
  cluster_.Put(1, {a0_}, {1, 2});
  Announce(2, a0_, 90);
  cluster_.SendAll(StreamChunk{{90}, Shared("abcd"), false, 1, {}});
  cluster_.Launch(5, "sum", 1, {1, 2}, {3});
  cluster_.Launch(6, "add_one", 1, {3}, {4});
  const WorkerActivity activity = Until(0, [](const WorkerActivity& activity) {
    return !activity.devices[0].tasks.empty() && activity.devices[0].tasks[0].age_us > 0;
  });
  ASSERT_THAT(activity.devices[0].tasks, SizeIs(1));
  const WorkerActivity::Task& head = activity.devices[0].tasks[0];
  EXPECT_EQ(head.launch, TestCluster::Id(5));
  EXPECT_EQ(head.program, "sum");
  EXPECT_FALSE(head.running);
  EXPECT_FALSE(head.program_loading);
  EXPECT_THAT(head.missing_arguments, ElementsAre(1));
  EXPECT_GT(head.age_us, 0);
  EXPECT_EQ(activity.devices[0].queued, 1u);
  ASSERT_THAT(activity.uploads, SizeIs(1));
  EXPECT_EQ(activity.uploads[0].array, ArrayId{2});
  EXPECT_EQ(activity.uploads[0].bytes_here, 4u);
  EXPECT_EQ(activity.uploads[0].bytes_expected, 8u);
}

TEST_F(WorkerActivityTest, ACancelledHeadIsForgotten) {
  Announce(1, a0_, 90);
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  Until(0, [](const WorkerActivity& activity) { return !activity.devices[0].tasks.empty(); });
  cluster_.SendAll(CancelLaunch{TestCluster::Id(1), absl::CancelledError("enough")});
  const WorkerActivity activity =
      Until(0, [](const WorkerActivity& activity) { return activity.devices[0].tasks.empty(); });
  EXPECT_THAT(activity.devices[0].tasks, IsEmpty());
}

TEST_F(WorkerActivityTest, RunningLaunchesAndTheirCollectives) {
  cluster_.node(0).engine.RegisterProgram("block", 1, {},
                                          [&](const FakeCall& call) -> absl::StatusOr<std::vector<FakeValue>> {
                                            return cluster_.node(0).collectives.Block(call.user_data);
                                          });
  cluster_.Load("block", 1, 1);
  cluster_.Put(1, {a0_}, {1, 2});
  cluster_.Launch(1, "block", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {2}, {3});
  cluster_.node(0).collectives.AwaitBlocked();
  const WorkerActivity activity = cluster_.controller(0).Activity();  // answered although the device is stuck
  ASSERT_THAT(activity.devices[0].tasks, SizeIs(1));
  EXPECT_TRUE(activity.devices[0].tasks[0].running);
  EXPECT_EQ(activity.devices[0].tasks[0].launch, TestCluster::Id(1));
  EXPECT_EQ(activity.devices[0].queued, 1u);
  ASSERT_THAT(activity.collectives, SizeIs(1));
  EXPECT_EQ(activity.collectives[0].launch, TestCluster::Id(1));
  EXPECT_THAT(activity.collectives[0].ranks_in, ElementsAre(0));
  EXPECT_THAT(activity.collectives[0].ranks_open, ElementsAre(1));
  cluster_.SendAll(CancelLaunch{TestCluster::Id(1), absl::CancelledError("enough")});
}

TEST_F(WorkerActivityTest, ATransferNamesTheWorkerThatItWaitsFor) {
  ASSERT_TRUE(FaultPoint::Arm("transfer.send").ok());
  cluster_.Put(1, {a0_}, {1, 2});
  TransferArray transfer;
  transfer.id = TestCluster::Id(1);
  transfer.session = TestCluster::kSession;
  transfer.from = {1};
  transfer.to = {2};
  transfer.layout = Layout::Default(1);
  transfer.destinations = {{b0_, Shape{DType::kF32, {2}}}};
  transfer.pieces = {{a0_, b0_, Box{{0}, {2}}, Box{{0}, {2}}}};
  cluster_.SendAll(transfer);
  cluster_.Launch(2, "add_one", 2, {2}, {3});
  const WorkerActivity activity =
      Until(1, [](const WorkerActivity& activity) { return !activity.devices[0].tasks.empty(); });
  FaultPoint::DisarmAll();
  ASSERT_THAT(activity.transfers, SizeIs(1));
  EXPECT_EQ(activity.transfers[0].id, TestCluster::Id(1));
  EXPECT_EQ(activity.transfers[0].from, ArrayId{1});
  EXPECT_EQ(activity.transfers[0].to, ArrayId{2});
  EXPECT_THAT(activity.transfers[0].sources, ElementsAre(cluster_.node(0).id));
  EXPECT_EQ(activity.transfers[0].bytes_missing, 8u);
  EXPECT_THAT(activity.fault_points, ElementsAre("transfer.send"));
  ASSERT_THAT(activity.devices[0].tasks, SizeIs(1));
  EXPECT_THAT(activity.devices[0].tasks[0].missing_arguments, ElementsAre(0));
}

}  // namespace
}  // namespace switchtower
