// Lost workers, workers that aren't there yet, and short memory.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class FailureTest : public ControllerTest {
 protected:
  void Lose(int slice) {
    rm.RemoveWorker(slice, 0);
    Settle();
  }
};

TEST_F(FailureTest, ALostWorkerTakesOnlyWhatTouchedItAlong) {
  connector.set_automatic(false);
  compiler.Register("both", TestProgram("both", 4, 1, 1));
  compiler.Register("left", TestProgram("left", 2, 1, 1));
  StartAll();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3}), 11).ok());
  ASSERT_TRUE(Put(2, TiledSpec({8}, {0, 1})).ok());
  ASSERT_TRUE(Put(3, TiledSpec({8}, {3})).ok());
  const uint64_t both = Compile("both", {0, 1, 2, 3}), left = Compile("left", {0, 1});
  ASSERT_TRUE(Execute(both, {1}, {10}, 42).ok());
  auto ready = WhenReady({1, 2});
  auto read = ReadLater(3);
  workers[1]->Await<ReadShard>();
  Lose(1);
  // The launch ends elsewhere, pending answers come, arrays with a shard there are lost.
  const CancelLaunch cancel = workers[0]->Await<CancelLaunch>();
  EXPECT_EQ(cancel.launch, workers[0]->Await<Launch>().id);
  EXPECT_EQ(cancel.cause.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(cancel.cause), HasSubstr("slice s1 host 0: worker lost"));
  EXPECT_EQ(ContextOf(cancel.cause), 42u);
  EXPECT_EQ(read.get().status().code(), absl::StatusCode::kDataLoss);
  for (const AwaitReady& await : workers[0]->All<AwaitReady>()) {
    workers[0]->Emit(switchtower::Ready{await.request, absl::OkStatus()});
  }
  EXPECT_EQ(ready.get().code(), absl::StatusCode::kDataLoss);
  absl::Status lost = Ready({1});
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ContextOf(lost), 11u);
  EXPECT_EQ(Ready({10}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Execute(both, {1}, {11}).status().code(), absl::StatusCode::kDataLoss);
  // A slice that is down answers, it doesn't hang.
  EXPECT_EQ(Put(4, TiledSpec({8}, {2})).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Ready({4}).code(), absl::StatusCode::kDataLoss);
  // The healthy part works on, shards of the lost array included.
  workers[0]->automatic = true;
  ASSERT_TRUE(Execute(left, {2}, {12}).ok());
  EXPECT_TRUE(Ready({12, 2}).ok());
  absl::Status disassembled =
      session->Disassemble(ArrayId{1}, std::vector<ArrayId>{{20}, {21}, {22}, {23}}, CopySemantics::kReuseInput, 0);
  EXPECT_EQ(disassembled.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Ready({20, 21}).ok());
  EXPECT_FALSE(Ready({22}).ok());
  workers[0]->Emit(Watermark{workers[0]->Await<Launch>(1).id});
}

TEST_F(FailureTest, AWorkerThatComesBackIsUsedAnew) {
  compiler.Register("both", TestProgram("both", 4, 1, 1));
  StartAll();
  const uint64_t both = Compile("both", {0, 1, 2, 3});
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(both, {1}, {10}).ok());
  Settle();
  const GangId old_gang = workers[0]->Await<DefineGang>().gang;
  Lose(1);
  EXPECT_EQ(Ready({10}).code(), absl::StatusCode::kDataLoss);
  const WorkerId reborn = rm.AddWorker(1, 0, Type());
  std::shared_ptr<FakeWorker> worker = connector.Await(reborn);
  Settle();
  EXPECT_EQ(Ready({10}).code(), absl::StatusCode::kDataLoss);  // what was lost stays lost
  ASSERT_TRUE(Put(2, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(both, {2}, {11}).ok());
  EXPECT_TRUE(Ready({11}).ok());
  EXPECT_EQ(worker->All<LoadProgram>().size(), 1u);
  const DefineGang gang = worker->Await<DefineGang>();
  EXPECT_NE(gang.gang, old_gang);
  EXPECT_EQ(gang.ranks[2], (PhysicalDevice{reborn, 0}));
  EXPECT_EQ(workers[0]->Await<DropGang>().gang, old_gang);
  EXPECT_EQ(workers[0]->All<LoadProgram>().size(), 1u);
  // Peers were told of both changes; at first of both workers together, when a gang needed to know.
  EXPECT_EQ(workers[0]->All<SetPeers>().front().peers.size(), 2u);
  EXPECT_EQ(workers[0]->All<SetPeers>().back().peers.size(), 2u);
  EXPECT_EQ(workers[0]->All<SetPeers>().size(), 3u);
  // Deleting what was lost bothers only those who have it.
  ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{1}, {10}}).ok());
  Settle();
  EXPECT_EQ(workers[0]->All<DeleteArrays>().size(), 1u);
  EXPECT_TRUE(worker->All<DeleteArrays>().empty());
}

TEST_F(FailureTest, ABrokenConnectionIsALostWorkerAndIsTriedAgain) {
  StartAll();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {2})).ok());
  Settle();
  std::shared_ptr<FakeWorker> before = workers[1];
  before->Break(absl::UnavailableError("reset by peer"));
  Settle();
  absl::Status lost = Ready({1});
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(lost), HasSubstr("slice s1 host 0: worker lost: reset by peer"));
  EXPECT_THAT(rm.unreachable(), ElementsAre(ids[1]));
  Settle();  // the new connection
  ASSERT_TRUE(Put(2, TiledSpec({8}, {2})).ok());
  EXPECT_TRUE(Ready({2}).ok());
  EXPECT_NE(connector.Await(ids[1]), before);
}

TEST_F(FailureTest, AWorkerThatWorksBetweenIsTriedAgainHoweverOften) {
  compiler.Register("both", TestProgram("both", 4, 1, 1));
  StartAll();
  const uint64_t both = Compile("both", {0, 1, 2, 3});
  for (uint64_t round = 0; round < 8; ++round) {
    const uint64_t in = 10 + 2 * round, out = in + 1;
    ASSERT_TRUE(Put(in, TiledSpec({8}, {0, 1, 2, 3})).ok()) << round;
    ASSERT_TRUE(Execute(both, {in}, {out}).ok()) << round;
    ASSERT_TRUE(Ready({out}).ok()) << round;
    Settle();
    connector.Await(ids[1])->Break(absl::UnavailableError("reset by peer"));
    Settle();
    Settle();  // the new connection
  }
}

TEST_F(FailureTest, AWorkerThatBreaksItsConnectionsAtOnceIsGivenUp) {
  StartAll();
  for (int attempt = 0; attempt < 5; ++attempt) {
    connector.Await(ids[1])->Break(absl::UnavailableError("reset by peer"));
    Settle();
    Settle();
  }
  absl::Status status = Put(1, TiledSpec({8}, {2}));
  if (status.ok()) status = Ready({1});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(FailureTest, WorkersThatLostEachOtherAreNamedToEachOtherAgain) {
  connector.set_automatic(false);
  compiler.Register("both", TestProgram("both", 4, 1, 1));
  StartAll();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  const uint64_t both = Compile("both", {0, 1, 2, 3});
  for (uint64_t out : {10, 11}) ASSERT_TRUE(Execute(both, {1}, {out}).ok());
  const LaunchId first = workers[0]->Await<Launch>(1).id, second = workers[0]->Await<Launch>(2).id;
  const size_t told = workers[1]->All<SetPeers>().size();
  const auto fail = [&](LaunchId launch) {
    workers[0]->Emit(LaunchFailed{launch, SessionId{}, absl::DataLossError("worker 2 was lost before all-reduce")});
    Settle();
  };
  fail(first);
  for (const auto& worker : workers) EXPECT_EQ(worker->All<SetPeers>().size(), told + 1);
  EXPECT_EQ(workers[1]->All<SetPeers>().back().peers.size(), 2u);
  fail(second);                             // by the same loss
  fail(LaunchId{second.epoch, 1'000'000});  // nonsense
  EXPECT_EQ(workers[1]->All<SetPeers>().size(), told + 1);
  ASSERT_TRUE(Execute(both, {1}, {12}).ok());
  fail(workers[0]->Await<Launch>(3).id);
  EXPECT_EQ(workers[1]->All<SetPeers>().size(), told + 2);
  for (const auto& worker : workers) worker->Emit(Watermark{worker->Await<Launch>(3).id});
}

TEST_F(FailureTest, AWorkerThatCantBeReachedIsGivenUp) {
  StartController();
  const WorkerId worker = rm.AddWorker(0, 0, Type());
  connector.Refuse(worker);
  session = *Open();
  ASSERT_EQ(session->description().devices.size(), 4u);
  Settle();
  absl::Status status = Put(1, TiledSpec({8}, {0}));
  if (status.ok()) status = Ready({1});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("can't be reached: connection refused"));
  EXPECT_EQ(rm.unreachable().size(), 5u);
}

TEST_F(FailureTest, SessionsOpenAndCompileBeforeWorkersAreIn) {
  compiler.Register("both", TestProgram("both", 4, 1, 1));
  StartController();
  session = *Open("cpu:1x2,cpu:1x2");
  EXPECT_EQ(session->description().devices.size(), 4u);
  EXPECT_EQ(session->description().devices[2].slice_index, 1);
  const uint64_t both = Compile("both", {0, 1, 2, 3});
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(both, {1}, {10}).ok());
  ASSERT_TRUE(Execute(both, {10}, {11}).ok());
  ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{10}}).ok());
  auto ready = WhenReady({11});
  EXPECT_EQ(Settle().homes[0].sessions[0].waits_for, std::string("workers"));
  const WorkerId first = rm.AddWorker(0, 0, Type());
  std::shared_ptr<FakeWorker> one = connector.Await(first);
  Settle();
  EXPECT_TRUE(one->All<Launch>().empty());
  const WorkerId second = rm.AddWorker(1, 0, Type());
  std::shared_ptr<FakeWorker> two = connector.Await(second);
  EXPECT_TRUE(ready.get().ok());
  for (const auto& worker : {one, two}) {
    EXPECT_EQ(worker->All<Launch>().size(), 2u);
    EXPECT_THAT(worker->Await<DeleteArrays>().arrays, ElementsAre(ArrayId{10}));
  }
  EXPECT_EQ(session->under_way(), 0u);
}

TEST_F(FailureTest, AfterTheLossOfItsLeaseAHomeTakesNoSessionAnyMore) {
  AddWorkers();
  StartController();
  Session* first = *Open();
  Session* second = *Open();
  std::promise<void> lost;
  controller->LoseLeases(absl::UnavailableError("the manager is gone"), [&] { lost.set_value(); });
  lost.get_future().get();
  // The old home stays until its sessions are closed, and isn't anybody else's.
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(rm.leases(), 2u);
  EXPECT_EQ(Settle().homes.size(), 2u);
  first->Close(absl::OkStatus());
  second->Close(absl::OkStatus());
  EXPECT_EQ(Settle().homes.size(), 1u);
  EXPECT_EQ(rm.leases(), 1u);
}

TEST_F(FailureTest, TheLossOfALeaseIsSaidToWhoWaitsForItsSlices) {
  FakeResourceManager empty(0, 0, 0);
  ControllerImpl::Options options = Options();
  options.resource_manager = &empty;
  controller = std::make_unique<ControllerImpl>(std::move(options));
  std::promise<absl::Status> opened;
  controller->OpenSession(
      {}, [&](absl::StatusOr<std::unique_ptr<Session>> session) { opened.set_value(session.status()); });
  Settle();
  controller->LoseLeases(absl::UnavailableError("the manager is gone"), [] {});
  EXPECT_THAT(Message(opened.get_future().get()), HasSubstr("the manager is gone"));
  EXPECT_TRUE(Settle().homes.empty());
}

TEST_F(FailureTest, SlicesOfOnesOwnAreExclusive) {
  AddWorkers();
  StartController();
  ASSERT_TRUE(Open("cpu:1x2,cpu:1x2").ok());
  EXPECT_EQ(Open("cpu:1x2").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Open("tpu:1x2").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Open("cpu").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rm.leases(), 1u);
  sessions.back()->Close(absl::OkStatus());
  Settle();
  EXPECT_EQ(rm.leases(), 0u);
  EXPECT_TRUE(Open("cpu:1x2").ok());
}

TEST_F(FailureTest, OpeningWithoutAnySliceEndsAtTheDeadline) {
  FakeResourceManager empty(0, 0, 0);
  ControllerImpl::Options options = Options();
  options.resource_manager = &empty;
  std::promise<Task> timer;
  options.run_after = [&](std::chrono::milliseconds, Task task) { timer.set_value(std::move(task)); };
  controller = std::make_unique<ControllerImpl>(std::move(options));
  std::promise<absl::Status> opened;
  controller->OpenSession(
      {}, [&](absl::StatusOr<std::unique_ptr<Session>> session) { opened.set_value(session.status()); });
  timer.get_future().get()();
  EXPECT_THAT(Message(opened.get_future().get()), HasSubstr("start workers"));
  controller.reset();
  EXPECT_EQ(empty.leases(), 0u);
}

TEST_F(FailureTest, AWorkerOfAnotherTypeGetsNoPrograms) {
  compiler.Register("one", TestProgram("one", 1, 0, 1));
  StartController();
  session = *Open();
  const uint64_t one = Compile("one", {0});
  DeviceType other = Type();
  other.instruction_set = "arm";
  ASSERT_TRUE(Execute(one, {}, {1}).ok());
  std::shared_ptr<FakeWorker> worker = connector.Await(rm.AddWorker(0, 0, other));
  const PutError error = worker->Await<PutError>();
  EXPECT_EQ(error.error.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(error.error), HasSubstr("compiled for cpu (cpu, x86), but slice s0 host 0 has cpu (cpu, arm)"));
  Settle();
  EXPECT_TRUE(worker->All<Launch>().empty());
  EXPECT_EQ(session->under_way(), 0u);
}

// 100 bytes a device; the program makes f32[8] (32 bytes) and needs 10 more while it runs.
class MemoryTest : public FailureTest {
 protected:
  void Start() {
    auto program = TestProgram("make", 1, 0, 1);
    program->info.memory.temporaries = 10;
    compiler.Register("make", program);
    auto step = TestProgram("step", 1, 1, 1, {0});
    step->info.memory.temporaries = 10;
    compiler.Register("step", step);
    compiler.Register("huge", TestProgram("huge", 1, 0, 1, {}, {64}));
    connector.set_automatic(false);
    StartAll(100);
    make = Compile("make", {0});
  }
  LaunchId LaunchOf(size_t n) { return workers[0]->Await<Launch>(n).id; }
  uint64_t make = 0;
};

TEST_F(MemoryTest, WhatCanNeverFitSaysWhoHoldsWhat) {
  Start();
  ASSERT_TRUE(Execute(Compile("huge", {0}), {}, {1}).ok());
  const PutError error = workers[0]->Await<PutError>();
  EXPECT_EQ(error.error.code(), absl::StatusCode::kResourceExhausted);
  Settle();
  EXPECT_THAT(Message(error.error), HasSubstr("launch of huge needs 256 bytes on slice s0 host 0 device 0"));
  EXPECT_EQ(session->under_way(), 0u);
}

// The sum with what is held doesn't fit an int64.
TEST_F(MemoryTest, TheLargestArrayIsRefusedToo) {
  Start();
  ASSERT_TRUE(Execute(make, {}, {1}).ok());
  ArraySpec spec = ReplicatedSpec({std::numeric_limits<int64_t>::max()}, {0, 1});
  spec.shape.dtype = DType::kS8;
  ASSERT_TRUE(
      session->MakeArray(ArrayId{2}, spec, {{{0, 1}, std::make_shared<FullBuffer>(std::vector<std::string>{}), {}}}, 0)
          .ok());
  const PutError error = workers[0]->Await<PutError>();
  EXPECT_THAT(Message(error.error),
              HasSubstr("array 2 from the host needs 9223372036854775807 bytes on slice s0 host 0 "
                        "device 0, which has 58 of 100 bytes free"));
}

TEST_F(MemoryTest, WhatFitsLaterWaitsInOrder) {
  Start();
  for (uint64_t id : {1, 2, 3, 4}) ASSERT_TRUE(Execute(make, {}, {id}).ok());
  Settle();
  EXPECT_EQ(workers[0]->All<Launch>().size(), 2u);  // 2 x 42 bytes
  EXPECT_EQ(Settle().homes[0].sessions[0].waits_for, std::string("memory"));
  workers[0]->Emit(Watermark{LaunchOf(1)});
  Settle();
  EXPECT_EQ(workers[0]->All<Launch>().size(), 2u);  // 32 + 42 are held
  workers[0]->Emit(Watermark{LaunchOf(2)});
  Settle();
  // 64 are held and nothing runs that would free any: the third can't fit, nor the fourth.
  EXPECT_EQ(workers[0]->All<Launch>().size(), 2u);
  EXPECT_EQ(workers[0]->All<PutError>().size(), 2u);
  EXPECT_THAT(Message(workers[0]->All<PutError>()[0].error), HasSubstr("this session's arrays hold 64 bytes"));
}

TEST_F(MemoryTest, ADeletePassesWhatWaitsForMemory) {
  Start();
  for (uint64_t id : {1, 2, 3}) ASSERT_TRUE(Execute(make, {}, {id}).ok());
  Settle();
  EXPECT_EQ(workers[0]->All<Launch>().size(), 2u);
  ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{1}}).ok());
  EXPECT_THAT(workers[0]->Await<DeleteArrays>().arrays, ElementsAre(ArrayId{1}));
  // The bytes are free once the launches that were sent before the delete have ended.
  EXPECT_EQ(workers[0]->All<Launch>().size(), 2u);
  workers[0]->Emit(Watermark{LaunchOf(2)});
  EXPECT_EQ(workers[0]->Await<Launch>(3).results, std::vector<ArrayId>{ArrayId{3}});
}

TEST_F(MemoryTest, DonatedMemoryIsTakenOver) {
  Start();
  const uint64_t step = Compile("step", {0});
  ASSERT_TRUE(Execute(make, {}, {1}).ok());
  workers[0]->Emit(Watermark{LaunchOf(1)});
  ASSERT_TRUE(Put(50, TiledSpec({8}, {0})).ok());
  for (uint64_t i = 1; i <= 20; ++i) {  // 32 and the put's 32 stay; 42 more wouldn't fit without the donation
    ASSERT_TRUE(Execute(step, {i}, {i + 1}).ok());
    workers[0]->Emit(Watermark{LaunchOf(i + 1)});
    ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{i}}).ok());
  }
  Settle();
  EXPECT_TRUE(workers[0]->All<PutError>().empty());
  EXPECT_EQ(workers[0]->All<Launch>().size(), 21u);
}

TEST_F(MemoryTest, OtherDevicesAreNotConcerned) {
  Start();
  for (uint64_t id : {1, 2, 3}) ASSERT_TRUE(Execute(make, {}, {id}).ok());
  Session* first = session;
  session = *Open();
  ASSERT_TRUE(session
                  ->MakeArray(ArrayId{1}, TiledSpec({0}, {0}),
                              {{{0}, std::make_shared<FullBuffer>(std::vector<std::string>{}), {}}}, 0)
                  .ok());
  auto ready = WhenReady({1});
  Settle();
  EXPECT_TRUE(workers[0]->All<PutArray>().empty());  // in order: nobody takes room before the head
  workers[0]->Emit(Watermark{LaunchOf(2)});
  workers[0]->Emit(switchtower::Ready{workers[0]->Await<AwaitReady>().request, absl::OkStatus()});
  EXPECT_TRUE(ready.get().ok());
  session = first;
}

}  // namespace
}  // namespace switchtower
