// How far ahead launches go, what may overtake them, and what sessions may claim, over fake workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/sessions/standing_words.h"
#include "controller/sessions/testing_controller.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two launches ahead of a device; nothing ends by itself.
class OrderTest : public ControllerTest {
 protected:
  void Start() {
    compiler.Register("step", TestProgram("step", 1, 1, 1));
    compiler.Register("both", TestProgram("both", 2, 0, 1));
    auto calls = TestProgram("calls", 1, 0, 1);
    calls->info.host_callbacks = {7};
    compiler.Register("calls", calls);
    connector.set_automatic(false);
    AddWorkers();
    ControllerImpl::Options options = Options();
    options.launches_ahead = 2;
    controller = std::make_unique<ControllerImpl>(std::move(options));
    session = *Open();
    workers = {connector.Await(ids[0]), connector.Await(ids[1])};
    ASSERT_TRUE(Put(1, TiledSpec({8}, {0})).ok());
    ASSERT_TRUE(Put(2, TiledSpec({8}, {0})).ok());
    ASSERT_TRUE(Put(3, TiledSpec({8}, {2})).ok());
    Settle();
  }
  size_t Launches(int worker) {
    Settle();
    return workers[worker]->All<Launch>().size();
  }
  void End(int worker, size_t launch) { workers[worker]->Emit(Watermark{workers[worker]->Await<Launch>(launch).id}); }
};

TEST_F(OrderTest, LaunchesBeyondTheWindowWaitAndWhatTheyDontTouchGoesOn) {
  Start();
  const uint64_t step = Compile("step", {0});
  for (uint64_t id : {10, 11, 12, 13}) ASSERT_TRUE(Execute(step, {id == 10 ? 1 : id - 1}, {id}).ok());
  EXPECT_EQ(Launches(0), 2u);
  EXPECT_EQ(Settle().homes[0].sessions[0].waits_for, "launches ahead of it");
  EXPECT_EQ(session->under_way(), 4u);
  auto untouched = ReadLater(2), of_sent = ReadLater(11), of_queued = ReadLater(12);
  ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{2}, {12}}).ok());
  EXPECT_EQ(Launches(0), 2u);
  EXPECT_EQ(workers[0]->All<ReadShard>().size(), 2u);
  EXPECT_THAT(workers[0]->All<DeleteArrays>()[0].arrays, ElementsAre(ArrayId{2}));
  EXPECT_EQ(workers[0]->All<DeleteArrays>().size(), 1u);
  End(0, 1);
  EXPECT_EQ(Launches(0), 3u);
  EXPECT_EQ(workers[0]->All<ReadShard>().size(), 3u);     // goes with its producer
  EXPECT_EQ(workers[0]->All<DeleteArrays>().size(), 1u);  // the fourth launch needs it
  End(0, 2);
  EXPECT_EQ(Launches(0), 4u);
  EXPECT_THAT(workers[0]->All<DeleteArrays>()[1].arrays, ElementsAre(ArrayId{12}));
  End(0, 4);
  EXPECT_EQ(Settle().homes[0].sessions[0].operations_queued, 0u);
  EXPECT_EQ(session->under_way(), 3u);  // the reads, which no worker answers
}

TEST_F(OrderTest, OtherDevicesGoOnButNothingOvertakesAGangOnItsOwn) {
  Start();
  const uint64_t step0 = Compile("step", {0}), step2 = Compile("step", {2}), both = Compile("both", {0, 2});
  for (uint64_t id : {10, 11}) ASSERT_TRUE(Execute(step0, {1}, {id}).ok());
  ASSERT_TRUE(Execute(step0, {1}, {12}).ok());  // waits: device 0 is full
  ASSERT_TRUE(Execute(step2, {3}, {13}).ok());  // device 2 isn't
  EXPECT_EQ(Launches(0), 2u);
  EXPECT_EQ(Launches(1), 1u);
  ASSERT_TRUE(Execute(both, {}, {14}).ok());    // waits for device 0, and so for its turn
  ASSERT_TRUE(Execute(step2, {3}, {15}).ok());  // could go, if it weren't for the gang before it
  EXPECT_EQ(Launches(1), 1u);
  End(0, 2);
  EXPECT_EQ(Launches(0), 4u);
  EXPECT_EQ(Launches(1), 2u);  // the gang; the window of device 2 is full now
  End(1, 1);
  EXPECT_EQ(Launches(1), 3u);
  // One order: the gang's number is the same on both, and each worker's ascend.
  EXPECT_EQ(workers[0]->All<Launch>()[3].id, workers[1]->All<Launch>()[1].id);
}

TEST_F(OrderTest, WhatAFunctionOfTheClientLaunchesDoesntWaitForWhatWaitsForTheFunction) {
  class Server : public ClientCallServer {
   public:
    void OnCall(ClientCall call) override { answers.push_back(std::move(call.answer)); }
    std::shared_ptr<const void> Hold(absl::Span<const uint64_t>) override { return std::make_shared<int>(0); }
    std::vector<decltype(ClientCall::answer)> answers;
  };
  Start();
  auto server = std::make_shared<Server>();
  session->ServeCalls(server);
  const uint64_t calls = Compile("calls", {0}), step = Compile("step", {0});
  ASSERT_TRUE(Execute(calls, {}, {10}).ok());
  for (uint64_t id : {11, 12, 13}) ASSERT_TRUE(Execute(step, {10}, {id}).ok());  // wait for the function
  EXPECT_EQ(Launches(0), 3u);                                                    // the one that calls isn't counted
  HostCall call;
  call.request = RequestId{1};
  call.launch = workers[0]->All<Launch>()[0].id;
  call.session = workers[0]->All<Launch>()[0].session;
  call.callback = 7;
  workers[0]->Emit(std::move(call));
  Settle();
  ASSERT_TRUE(Execute(step, {1}, {20}).ok());  // by the function
  EXPECT_EQ(Launches(0), 5u);
  ASSERT_EQ(server->answers.size(), 1u);
  server->answers[0](std::make_shared<const std::string>(""));
  ASSERT_TRUE(Execute(step, {1}, {21}).ok());
  EXPECT_EQ(Launches(0), 5u);  // the window counts again
}

TEST_F(OrderTest, ASessionsEndAnswersWhatItQueued) {
  Start();
  const uint64_t step = Compile("step", {0});
  for (uint64_t id : {10, 11, 12}) ASSERT_TRUE(Execute(step, {1}, {id}).ok());
  auto ready = WhenReady({12});
  Settle();
  session->Close(absl::CancelledError("enough"));
  EXPECT_EQ(ready.get().message(), "enough");
}

TEST_F(OrderTest, WeightAndPriorityAreCheckedWhenASessionOpens) {
  EXPECT_EQ(ParseStanding("", "")->weight, 1);
  EXPECT_EQ(ParseStanding("4", "-2")->weight, 4);
  EXPECT_EQ(ParseStanding("4", "-2")->priority, -2);
  for (const char* word : {"0", "-1", "1.5", "many", "4 ", "99999999999"}) {
    EXPECT_THAT(std::string(ParseStanding(word, "").status().message()),
                HasSubstr(std::string("weight \"") + word + "\" isn't a whole number from 1 to 1000000"));
  }
  EXPECT_THAT(std::string(ParseStanding("", "high").status().message()), HasSubstr("priority \"high\""));
  Start();
  absl::Status refused;
  controller->OpenSession({.peer = "test", .weight = "heavy"},
                          [&](absl::StatusOr<std::unique_ptr<Session>> opened) { refused = opened.status(); });
  Settle();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace switchtower
