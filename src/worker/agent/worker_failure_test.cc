// Errors, cancels and ends: first causes, watermarks, nothing left pending.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/agent/testing_worker.h"

namespace switchtower {
namespace {

using Floats = std::vector<float>;
using testing::HasSubstr;

class WorkerFailureTest : public testing::Test {
 protected:
  WorkerFailureTest() {
    FakeCollectives& collectives = cluster_.node(0).collectives;
    engine().RegisterProgram("block", 1, {}, [&](const FakeCall& call) -> absl::StatusOr<std::vector<FakeValue>> {
      return collectives.Block(call.user_data);
    });
    engine().RegisterProgram("fail_on_1", 1, {}, [](const FakeCall& call) -> absl::StatusOr<std::vector<FakeValue>> {
      if (call.device == 1) return absl::OutOfRangeError("device 1 dislikes it");
      return call.arguments;
    });
    cluster_.DefineGang(1, {d0_});
    cluster_.DefineGang(2, {d0_, d1_});
    for (const char* name : {"add_one", "fail", "block", "fail_on_1"}) cluster_.Load(name, 1, 1);
    cluster_.Put(1, {d0_, d1_}, {1});
  }
  TestController& controller() { return cluster_.controller(0); }
  FakeEngine& engine() { return cluster_.node(0).engine; }
  FakeCollectives& collectives() { return cluster_.node(0).collectives; }

  TestCluster cluster_{1};
  const PhysicalDevice d0_ = cluster_.Device(0, 0);
  const PhysicalDevice d1_ = cluster_.Device(0, 1);
};

TEST_F(WorkerFailureTest, AFailedProgramKeepsItsFirstCauseDownTheChain) {
  const absl::Status cause = absl::InternalError("fake program failed");
  cluster_.Launch(1, "fail", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {2}, {3});
  cluster_.Launch(3, "add_one", 1, {1}, {4});
  EXPECT_EQ(cluster_.Status(2, d0_), cause);
  EXPECT_EQ(cluster_.Status(3, d0_), cause);
  EXPECT_EQ(*cluster_.ReadFloats(4, d0_), (Floats{2}));
  EXPECT_EQ(controller().AwaitFailure(TestCluster::Id(1))->cause, cause);
  EXPECT_EQ(controller().AwaitFailure(TestCluster::Id(2))->cause, cause);
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(3)));
  EXPECT_EQ(controller().failures().size(), 2u);
  EXPECT_EQ(controller().Await(TestCluster::kSession, {{1}, {4}, {3}, {2}}), cause);
}

TEST_F(WorkerFailureTest, ACauseOutlivesThePluginsRewording) {
  // All three are executed before the first one fails; what the engine says of the others is another error.
  engine().Hold();
  controller().Send(PutError{TestCluster::Key(9), {d0_}, absl::DataLossError("nine")});
  cluster_.Launch(1, "fail", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {2}, {3});
  cluster_.Launch(3, "add_one", 1, {3}, {4});
  while (engine().executed().size() < 3) std::this_thread::yield();
  engine().Release();
  EXPECT_EQ(cluster_.Status(4, d0_), absl::InternalError("fake program failed"));
  cluster_.Launch(4, "add_one", 1, {9}, {5});
  EXPECT_EQ(cluster_.Status(5, d0_), absl::DataLossError("nine"));
}

TEST_F(WorkerFailureTest, OneRanksErrorIsToldOnceAndTheOthersKeepTheirs) {
  cluster_.Launch(1, "fail_on_1", 2, {1}, {2});
  EXPECT_EQ(cluster_.Status(2, d1_), absl::OutOfRangeError("device 1 dislikes it"));
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(1)));
  ASSERT_EQ(controller().failures().size(), 1u);
  EXPECT_TRUE(controller().failures()[0].origin);
  EXPECT_EQ(controller().failures()[0].session, TestCluster::kSession);
}

TEST_F(WorkerFailureTest, ARankThatCannotStartEndsThePeersCollective) {
  controller().Send(PutError{TestCluster::Key(5), {d1_}, absl::DataLossError("no input")});
  cluster_.Put(6, {d0_}, {1});
  controller().Send(BindArrays{TestCluster::kSession, {{{6}, {5}, d0_}}});
  cluster_.Launch(1, "block", 2, {5}, {7});
  EXPECT_EQ(cluster_.Status(7, d0_), absl::DataLossError("no input"));
  EXPECT_EQ(cluster_.Status(7, d1_), absl::DataLossError("no input"));
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(1)));
  EXPECT_EQ(controller().failures().size(), 1u);
}

TEST_F(WorkerFailureTest, CancelEndsARunningCollectiveAndQueuedLaunches) {
  const absl::Status cause = absl::DataLossError("slice 1 was lost");
  cluster_.Launch(1, "block", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {1}, {3});
  collectives().AwaitBlocked();
  controller().Send(CancelLaunch{TestCluster::Id(2), cause});
  EXPECT_EQ(cluster_.Status(3, d0_), cause);  // though its device is still blocked
  controller().Send(CancelLaunch{TestCluster::Id(1), cause});
  EXPECT_EQ(cluster_.Status(2, d0_), cause);
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(2)));
  EXPECT_FALSE(controller().AwaitFailure(TestCluster::Id(1))->origin);
  EXPECT_FALSE(controller().AwaitFailure(TestCluster::Id(2))->origin);
  EXPECT_EQ(engine().executed(), std::vector<std::string>{"block"});
  EXPECT_EQ(collectives().ended().size(), 2u);
}

TEST_F(WorkerFailureTest, CollectivesHearWhichPeersAreNamed) {
  controller().Send(SetPeers{{{WorkerId{9}, "in-process", {"in-process"}, "secret"},
                              {cluster_.node(0).id, "in-process", {"in-process"}, "secret"}}});
  cluster_.Settle(0);
  EXPECT_EQ(collectives().forgotten(), std::vector<WorkerId>{WorkerId{9}});
}

TEST_F(WorkerFailureTest, CancelDropsALaunchThatWaitsForItsInput) {
  PutArray put;
  put.array = TestCluster::Key(5);
  put.devices = {d0_};
  put.shard_shape = Shape{DType::kF32, {1}};
  put.layout = Layout::Default(1);
  put.stream = {500};
  put.stream_bytes = 4;
  controller().Send(put);
  cluster_.Launch(1, "add_one", 1, {5}, {6});
  cluster_.Launch(2, "add_one", 1, {1}, {7});
  controller().Send(CancelLaunch{TestCluster::Id(1), absl::CancelledError("no longer wanted")});
  EXPECT_EQ(cluster_.Status(6, d0_), absl::CancelledError("no longer wanted"));
  EXPECT_EQ(*cluster_.ReadFloats(7, d0_), (Floats{2}));
}

TEST_F(WorkerFailureTest, ProgramsThatDoNotLoad) {
  cluster_.Load("no such program", 1, 1);
  cluster_.Launch(1, "no such program", 1, {1}, {2});
  EXPECT_THAT(std::string(cluster_.Status(2, d0_).message()), HasSubstr("no fake program"));
  cluster_.Launch(2, "never sent", 1, {1}, {3});
  EXPECT_EQ(cluster_.Status(3, d0_).code(), absl::StatusCode::kInvalidArgument);
  cluster_.Launch(3, "add_one", 1, {1, 1}, {4});
  EXPECT_EQ(cluster_.Status(4, d0_).code(), absl::StatusCode::kInvalidArgument);
  cluster_.Launch(4, "add_one", 42, {1}, {5});
  EXPECT_TRUE(controller().AwaitFailure(TestCluster::Id(4)).has_value());
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(4)));
}

TEST_F(WorkerFailureTest, LaunchIdsNeverGoBack) {
  cluster_.Launch(5, "add_one", 1, {1}, {2});
  cluster_.Launch(5, "add_one", 1, {1}, {3});
  EXPECT_EQ(cluster_.Status(3, d0_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*cluster_.ReadFloats(2, d0_), (Floats{2}));
}

TEST_F(WorkerFailureTest, ASessionsEndFreesItAndLeavesOthers) {
  PutArray other;
  other.array = {SessionId{78}, {1}};
  other.devices = {d0_};
  other.shard_shape = Shape{DType::kU8, {1}};
  other.layout = Layout::Default(1);
  other.stream = {900};
  other.stream_bytes = 1;
  controller().Send(other);
  controller().Send(StreamChunk{{900}, Shared("o"), true, 1, {}});
  cluster_.Launch(1, "block", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {1}, {3});
  collectives().AwaitBlocked();
  controller().Send(EndSession{TestCluster::kSession});
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(2)));
  EXPECT_EQ(*controller().Read({SessionId{78}, {1}}, d0_), "o");
  EXPECT_EQ(cluster_.Status(1, d0_).code(), absl::StatusCode::kInvalidArgument);
  cluster_.Settle(0);
  EXPECT_EQ(engine().live_buffers(), 1);
}

TEST_F(WorkerFailureTest, AnEndlessLaunchIsStuckOnceItsSessionHasEnded) {
  const auto stuck = [&] {
    cluster_.node(0).worker->CheckLeftovers();
    cluster_.Settle(0);
    return cluster_.node(0).stuck;
  };
  engine().Hold();
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {2}, {3});
  while (engine().executed().size() < 2) std::this_thread::yield();
  EXPECT_EQ(stuck(), absl::OkStatus());  // it may take all the time it wants
  controller().Send(EndSession{SessionId{78}});
  EXPECT_EQ(stuck(), absl::OkStatus());
  controller().Send(EndSession{TestCluster::kSession});
  cluster_.Settle(0);
  EXPECT_THAT(stuck().message(), HasSubstr("launch 1.1 still runs"));
  cluster_.node(0).stuck = absl::OkStatus();
  engine().Release();
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(2)));
  EXPECT_EQ(stuck(), absl::OkStatus());
}

TEST_F(WorkerFailureTest, AnEndlessLaunchIsStuckOnceItsControllerIsGone) {
  engine().Hold();
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  while (engine().executed().empty()) std::this_thread::yield();
  std::unique_ptr<TestController> next = cluster_.Connect(0);
  cluster_.node(0).controller.swap(next);
  cluster_.node(0).worker->CheckLeftovers();
  cluster_.Settle(0);
  EXPECT_THAT(cluster_.node(0).stuck.message(), HasSubstr("launch 1.1 still runs"));
}

TEST_F(WorkerFailureTest, AControllersEndFreesAll) {
  cluster_.Launch(1, "block", 1, {1}, {2});
  collectives().AwaitBlocked();
  controller().Close();
  std::unique_ptr<TestController> next = cluster_.Connect(0);
  cluster_.node(0).controller.swap(next);
  cluster_.DefineGang(1, {d0_});
  cluster_.Load("add_one", 1, 1);
  cluster_.Put(10, {d0_}, {4});
  cluster_.Launch(2, "add_one", 1, {10}, {11});
  EXPECT_EQ(*cluster_.ReadFloats(11, d0_), (Floats{5}));
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(2)));
  EXPECT_FALSE(cluster_.Status(1, d0_).ok());
  cluster_.Settle(0);
  EXPECT_EQ(engine().live_buffers(), 2);
}

TEST_F(WorkerFailureTest, ANewControllerSupersedesTheOldOne) {
  cluster_.Launch(1, "block", 1, {1}, {2});
  collectives().AwaitBlocked();
  std::unique_ptr<TestController> next = cluster_.Connect(0);
  EXPECT_EQ(controller().AwaitClosed()->code(), absl::StatusCode::kAborted);
  controller().Send(PutError{TestCluster::Key(1), {d0_}, absl::InternalError("from the past")});
  cluster_.node(0).controller.swap(next);
  EXPECT_EQ(cluster_.Status(1, d0_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerFailureTest, StopEndsWhatRuns) {
  cluster_.Launch(1, "block", 2, {1}, {2});
  collectives().AwaitBlocked();
  cluster_.node(0).worker->Stop();
  EXPECT_TRUE(controller().AwaitClosed().has_value());
}

}  // namespace
}  // namespace switchtower
