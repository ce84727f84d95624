// A client that waits for each launch: its questions are answered by the ends of launches, which workers tell at once.
#include <future>

#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"

namespace switchtower {
namespace {

class ControllerWaitingTest : public ControllerTest {
 protected:
  // A client that has waited for its first launch, the one that makes array 10.
  void StartWaiting() {
    connector.set_automatic(false);
    compiler.Register("step", TestProgram("step", 4, 0, 1));
    compiler.Register("left", TestProgram("left", 1, 0, 1));
    StartAll();
    step = Compile("step", {0, 1, 2, 3});
    left = Compile("left", {0});
    ASSERT_TRUE(Execute(step, {}, {10}).ok());
    auto ready = WhenReady({10});
    for (const auto& worker : workers) {
      EXPECT_FALSE(worker->Await<Launch>().awaited);
      worker->Emit(switchtower::Ready{worker->Await<AwaitReady>().request, absl::OkStatus()});
    }
    EXPECT_TRUE(ready.get().ok());
    EndAll(1);
  }
  LaunchId Id(size_t launch) { return workers[0]->Await<Launch>(launch).id; }
  void EndAll(size_t launch) {
    for (const auto& worker : workers) worker->Emit(Watermark{worker->Await<Launch>(launch).id});
    Settle();
  }
  size_t questions() const { return workers[0]->All<AwaitReady>().size() + workers[1]->All<AwaitReady>().size() - 2; }
  static bool Answered(const std::future<absl::Status>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  uint64_t step = 0, left = 0;
};

TEST_F(ControllerWaitingTest, TheEndOnAllWorkersIsTheAnswer) {
  StartWaiting();
  ASSERT_TRUE(Execute(step, {}, {11}).ok());
  EXPECT_TRUE(workers[1]->Await<Launch>(2).awaited);
  auto ready = WhenReady({11});
  ASSERT_EQ(Settle().homes[0].waits.size(), 1u);
  EXPECT_EQ(TakeSnapshot().homes[0].waits[0].arrays, (std::vector<ArrayId>{{11}}));
  workers[0]->Emit(Watermark{Id(2)});
  Settle();
  EXPECT_FALSE(Answered(ready));
  workers[1]->Emit(Watermark{Id(2)});
  EXPECT_TRUE(ready.get().ok());
  EXPECT_EQ(questions(), 0u);
  EXPECT_TRUE(Settle().homes[0].waits.empty());
  // One that nobody waits for comes between: the next isn't awaited.
  ASSERT_TRUE(Execute(step, {}, {12}).ok());
  ASSERT_TRUE(Execute(step, {}, {13}).ok());
  EXPECT_TRUE(workers[0]->Await<Launch>(3).awaited);
  EXPECT_FALSE(workers[0]->Await<Launch>(4).awaited);
}

TEST_F(ControllerWaitingTest, AnEndThatIsKnownAnswersAtOnce) {
  StartWaiting();
  ASSERT_TRUE(Execute(step, {}, {11}).ok());
  EndAll(2);
  EXPECT_TRUE(Ready({11}).ok());
  EXPECT_TRUE(Ready({10}).ok());
  EXPECT_EQ(questions(), 0u);
  // No end tells of two launches.
  auto both = WhenReady({10, 11, 10});
  workers[0]->Await<AwaitReady>(2);
  EXPECT_FALSE(Answered(both));
}

TEST_F(ControllerWaitingTest, AFailureIsTheAnswerToo) {
  StartWaiting();
  ASSERT_TRUE(Execute(step, {}, {11}, 42).ok());
  auto ready = WhenReady({11});
  Settle();
  workers[1]->Emit(LaunchFailed{Id(2), session->description().id, absl::InvalidArgumentError("rank 3: nan"), true});
  EndAll(2);
  const absl::Status status = ready.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rank 3: nan");
  EXPECT_EQ(ContextOf(status), 42u);
  EXPECT_EQ(questions(), 0u);
  // From then on the workers are asked of it, and of what is older.
  auto again = WhenReady({11}), older = WhenReady({10});
  workers[0]->Await<AwaitReady>(3);
  EXPECT_FALSE(Answered(again));
  EXPECT_FALSE(Answered(older));
}

TEST_F(ControllerWaitingTest, ALostWorkerIsTheAnswerToo) {
  StartWaiting();
  ASSERT_TRUE(Execute(step, {}, {11}).ok());
  auto ready = WhenReady({11});
  Settle();
  workers[1]->Break(absl::UnavailableError("gone"));
  workers[0]->Await<CancelLaunch>();
  workers[0]->Emit(Watermark{Id(2)});
  EXPECT_EQ(ready.get().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ControllerWaitingTest, ASessionsEndIsTheAnswerToo) {
  StartWaiting();
  ASSERT_TRUE(Execute(step, {}, {11}).ok());
  auto ready = WhenReady({11});
  Settle();
  session->Close(absl::OkStatus());
  EXPECT_EQ(ready.get().code(), absl::StatusCode::kCancelled);
  EndAll(2);  // nobody is left to hear of it
}

TEST_F(ControllerWaitingTest, WhereAnotherLaunchMayHoldUpTheWatermarkTheWorkersAreAsked) {
  StartWaiting();
  ASSERT_TRUE(Execute(left, {}, {11}).ok());
  ASSERT_TRUE(Ready({10}).ok());
  ASSERT_TRUE(Execute(step, {}, {12}).ok());
  EXPECT_TRUE(workers[0]->Await<Launch>(3).awaited);
  auto ready = WhenReady({12});
  for (const auto& worker : workers) {
    worker->Emit(switchtower::Ready{worker->Await<AwaitReady>(2).request, absl::OkStatus()});
  }
  EXPECT_TRUE(ready.get().ok());
}

// A client that asks on and on for what isn't there yet: its stream isn't read on.
TEST_F(ControllerWaitingTest, QuestionsAreUnderWayUntilTheyAreAnswered) {
  StartWaiting();
  EXPECT_EQ(session->under_way(), 0u);
  ASSERT_TRUE(Put(20, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Put(21, ReplicatedSpec({8}, {0})).ok());
  auto ready = WhenReady({20}), other = WhenReady({20});
  auto bytes = ReadLater(21);
  EXPECT_EQ(session->under_way(), 3u);
  EXPECT_EQ(Settle().homes[0].sessions[0].launches_in_flight, 0u);
  std::promise<void> below;
  session->WhenBelow(3, [&] { below.set_value(); });
  for (const auto& worker : workers) {
    worker->Emit(switchtower::Ready{worker->Await<AwaitReady>(2).request, absl::OkStatus()});
  }
  EXPECT_TRUE(ready.get().ok());
  below.get_future().get();
  session->Close(absl::OkStatus());
  EXPECT_FALSE(other.get().ok());
  EXPECT_FALSE(bytes.get().ok());
  EXPECT_EQ(session->under_way(), 0u);
}

TEST_F(ControllerWaitingTest, WhatOtherRequestsMakeIsAskedFor) {
  StartWaiting();
  ASSERT_TRUE(Put(20, TiledSpec({8}, {0, 1, 2, 3})).ok());
  auto ready = WhenReady({20});
  for (const auto& worker : workers) {
    worker->Emit(switchtower::Ready{worker->Await<AwaitReady>(2).request, absl::OkStatus()});
  }
  EXPECT_TRUE(ready.get().ok());
}

}  // namespace
}  // namespace switchtower
