// Sessions, launches and programs over fake workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"
#include "controller/sessions/virtual_slices.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_F(ControllerTest, DescribesDevicesAndMemories) {
  StartAll();
  const SessionDescription& description = session->description();
  EXPECT_EQ(description.platform_name, "cpu");
  ASSERT_EQ(description.devices.size(), 4u);
  EXPECT_EQ(description.devices[3].id, DeviceId{3});
  EXPECT_EQ(description.devices[3].slice_index, 1);
  EXPECT_EQ(description.devices[3].task_index, 1);
  EXPECT_EQ(description.devices[3].ordinal_on_host, 1);
  ASSERT_EQ(description.memories.size(), 8u);
  EXPECT_EQ(description.memories[7].id, 7);
  EXPECT_EQ(description.memories[7].kind, "pinned_host");
  EXPECT_EQ(description.memories[7].device, DeviceId{3});
  EXPECT_GE(session->NewHandle(), uint64_t{1} << 48);
  EXPECT_EQ(session->DefaultLayout(Shape{DType::kF32, {2, 3}}, DeviceId{0}, "")->ToString(), "{1,0}");
  EXPECT_FALSE(session->DefaultLayout(Shape{DType::kF32, {2}}, DeviceId{9}, "").ok());
}

TEST_F(ControllerTest, ALaunchIsOneCommandForEachWorkerConcerned) {
  compiler.Register("step", TestProgram("step", 4, 1, 1));
  StartAll();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  const uint64_t step = Compile("step", {0, 1, 2, 3});
  absl::StatusOr<ExecuteReply> first = Execute(step, {1}, {}, 9);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_EQ(first->specs.size(), 1u);
  EXPECT_GE(first->results[0].value, uint64_t{1} << 48);
  EXPECT_EQ(first->specs[0].shape.dims, std::vector<int64_t>{8});
  EXPECT_EQ(first->specs[0].sharding.kind, Sharding::Kind::kTiled);
  EXPECT_EQ(first->specs[0].sharding.devices, Devices({0, 1, 2, 3}));
  Settle();
  std::vector<size_t> before;
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->All<LoadProgram>().size(), 1u);
    ASSERT_EQ(worker->All<DefineGang>().size(), 1u);
    EXPECT_EQ(worker->All<DefineGang>()[0].ranks,
              (std::vector<PhysicalDevice>{{ids[0], 0}, {ids[0], 1}, {ids[1], 0}, {ids[1], 1}}));
    before.push_back(worker->commands().size());
  }
  // The steady state: one command a worker, the results of one launch feed the next.
  uint64_t argument = first->results[0].value;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(Execute(step, {argument}, {100 + i}).ok());
    argument = 100 + i;
  }
  Settle();
  for (size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(workers[w]->commands().size(), before[w] + 10);
    const std::vector<Launch> launches = workers[w]->All<Launch>();
    ASSERT_EQ(launches.size(), 11u);
    for (size_t i = 1; i < launches.size(); ++i) EXPECT_LT(launches[i - 1].id, launches[i].id);
    EXPECT_EQ(launches[0].id.epoch, 7u);
    EXPECT_EQ(launches[3].results, std::vector<ArrayId>{ArrayId{102}});
  }
  EXPECT_EQ(workers[0]->All<Launch>()[5].id, workers[1]->All<Launch>()[5].id);
  EXPECT_EQ(session->under_way(), 0u);
  // A program of one device is nobody else's business.
  compiler.Register("one", TestProgram("one", 1, 0, 1));
  ASSERT_TRUE(Execute(Compile("one", {2}), {}, {}).ok());
  Settle();
  EXPECT_EQ(workers[0]->All<Launch>().size(), 11u);
  EXPECT_EQ(workers[1]->All<Launch>().size(), 12u);
}

TEST_F(ControllerTest, DonationIsAPermissionAndEndsTheHandle) {
  compiler.Register("step", TestProgram("step", 1, 3, 1, {0, 1, 2}));
  StartAll();
  const uint64_t step = Compile("step", {0});
  for (uint64_t id : {1, 2}) ASSERT_TRUE(Put(id, TiledSpec({8}, {0})).ok());
  ASSERT_TRUE(Execute(step, {1, 2, 1}, {10}).ok());  // 1 is there twice
  Settle();
  EXPECT_THAT(workers[0]->All<Launch>()[0].donated, ElementsAre(1u));
  absl::StatusOr<ExecuteReply> again = Execute(step, {1, 2, 1}, {12});
  EXPECT_EQ(again.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(again.status()), HasSubstr("Array has been donated with shape=f32[8]"));
  EXPECT_TRUE(*session->IsDeleted(ArrayId{2}));
  EXPECT_FALSE(*session->IsDeleted(ArrayId{10}));
  // The donated entries are removed from the stores when the client drops the handle.
  ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{2}}).ok());
  EXPECT_THAT(workers[0]->Await<DeleteArrays>().arrays, ElementsAre(ArrayId{2}));
}

TEST_F(ControllerTest, NonDonatableAndDuplicateArgumentsAreKept) {
  compiler.Register("step", TestProgram("step", 1, 3, 1, {0, 1, 2}));
  StartAll();
  const uint64_t step = Compile("step", {0});
  for (uint64_t id : {1, 2}) ASSERT_TRUE(Put(id, TiledSpec({8}, {0})).ok());
  ASSERT_TRUE(Execute(step, {1, 1, 2}, {10}, 0, {2}).ok());
  Settle();
  EXPECT_TRUE(workers[0]->All<Launch>()[0].donated.empty());
  EXPECT_FALSE(*session->IsDeleted(ArrayId{1}));
}

TEST_F(ControllerTest, ArgumentsAreChecked) {
  compiler.Register("two", TestProgram("two", 2, 1, 1));
  StartAll();
  const uint64_t two = Compile("two", {0, 2});
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 2})).ok());
  ASSERT_TRUE(Put(2, TiledSpec({8}, {2, 0})).ok());
  ASSERT_TRUE(Put(3, TiledSpec({8}, {0})).ok());
  ASSERT_TRUE(Put(4, TiledSpec({4}, {0, 2})).ok());
  EXPECT_TRUE(Execute(two, {1}, {10}).ok());
  EXPECT_THAT(Message(Execute(two, {2}, {11}).status()),
              HasSubstr("is on devices [2,0], but the program runs on [0,2]"));
  EXPECT_THAT(Message(Execute(two, {3}, {12}).status()), HasSubstr("argument 0"));
  EXPECT_THAT(Message(Execute(two, {4}, {13}).status()), HasSubstr("the program takes f32[4] there"));
  EXPECT_THAT(Message(Execute(two, {1, 1}, {14}).status()), HasSubstr("takes 1 arguments, 2 were given"));
  EXPECT_THAT(Message(Execute(two, {99}, {15}).status()), HasSubstr("handle 99 isn't known"));
  EXPECT_THAT(Message(Execute(two, {1}, {10}).status()), HasSubstr("handle 10 is in use"));
  EXPECT_THAT(Message(Execute(12345, {1}, {16}).status()), HasSubstr("executable handle 12345"));
  EXPECT_TRUE(Ready({10}).ok());  // kept what it had
  EXPECT_THAT(Message(Ready({11})), HasSubstr("is on devices"));
}

TEST_F(ControllerTest, ErrorsKeepTheFirstCauseAndItsRequest) {
  compiler.Register("step", TestProgram("step", 1, 1, 1));
  StartAll();
  const uint64_t step = Compile("step", {0});
  session->BindError(ArrayId{1}, absl::UnimplementedError("no such thing"));
  session->MakeErrorArray(ArrayId{2}, TiledSpec({8}, {0}), WithUserContext(absl::AbortedError("mine"), 3));
  EXPECT_EQ(Execute(step, {1}, {10}, 77).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(Execute(step, {10}, {11}, 78).ok());
  absl::Status ready = Ready({11});
  EXPECT_EQ(Message(ready), "no such thing");
  EXPECT_EQ(ContextOf(ready), 77u);
  EXPECT_FALSE(Execute(step, {2}, {12}, 79).ok());
  EXPECT_EQ(ContextOf(Ready({12})), 3u);
  EXPECT_EQ(ReadLater(12).get().status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(workers[0]->All<Launch>().empty());
}

TEST_F(ControllerTest, AFailedRankEndsTheLaunchEverywhere) {
  connector.set_automatic(false);
  compiler.Register("step", TestProgram("step", 4, 0, 1));
  StartAll();
  const uint64_t step = Compile("step", {0, 1, 2, 3});
  std::promise<absl::Status> ended;
  ExecuteRequest request;
  request.executable = step;
  request.results = {ArrayId{10}};
  request.user_context = 42;
  ASSERT_TRUE(session->Execute(request, [&](absl::Status status) { ended.set_value(std::move(status)); }).ok());
  const LaunchId id = workers[1]->Await<Launch>().id;
  EXPECT_EQ(session->under_way(), 1u);
  workers[0]->Emit(LaunchFailed{id, session->description().id, absl::InvalidArgumentError("rank 1: nan"), true});
  const CancelLaunch cancel = workers[1]->Await<CancelLaunch>();
  EXPECT_EQ(cancel.launch, id);
  EXPECT_EQ(Message(cancel.cause), "rank 1: nan");
  workers[1]->Emit(LaunchFailed{id, session->description().id, absl::CancelledError("peer"), false});
  workers[0]->Emit(Watermark{id});
  workers[1]->Emit(Watermark{id});
  absl::Status status = ended.get_future().get();
  EXPECT_EQ(Message(status), "rank 1: nan");
  EXPECT_EQ(ContextOf(status), 42u);
  EXPECT_EQ(workers[1]->All<CancelLaunch>().size(), 1u);
  // The worker's own words come back with the request that caused them.
  auto ready = WhenReady({10});
  // One question, the same to both; each answers it once.
  EXPECT_EQ(workers[0]->Await<AwaitReady>().request, workers[1]->Await<AwaitReady>().request);
  for (int times : {1, 2}) {
    workers[0]->Emit(
        switchtower::Ready{workers[0]->Await<AwaitReady>().request, absl::InvalidArgumentError("rank 1: nan")});
    Settle();
    EXPECT_EQ(TakeSnapshot().homes[0].waits.size(), 1u) << times;
  }
  workers[1]->Emit(
      switchtower::Ready{workers[1]->Await<AwaitReady>().request, absl::InvalidArgumentError("rank 1: nan")});
  status = ready.get();
  EXPECT_EQ(Message(status), "rank 1: nan");
  EXPECT_EQ(ContextOf(status), 42u);
}

TEST_F(ControllerTest, AWorkersWordCountsOnlyForWhatItWasAsked) {
  connector.set_automatic(false);
  compiler.Register("step", TestProgram("step", 1, 0, 1));
  StartAll();
  const uint64_t step = Compile("step", {0});
  std::promise<absl::Status> ended;
  ExecuteRequest request;
  request.executable = step;
  request.results = {ArrayId{10}};
  ASSERT_TRUE(session->Execute(request, [&](absl::Status status) { ended.set_value(std::move(status)); }).ok());
  const LaunchId id = workers[0]->Await<Launch>().id;
  workers[1]->Emit(LaunchFailed{id, session->description().id, absl::InternalError("not mine"), true});
  workers[1]->Emit(Watermark{id});
  Settle();
  EXPECT_EQ(session->under_way(), 1u);
  EXPECT_TRUE(workers[0]->All<CancelLaunch>().empty());
  workers[0]->Emit(Watermark{id});
  EXPECT_TRUE(ended.get_future().get().ok());

  auto read = ReadLater(10);
  const RequestId question = workers[0]->Await<ReadShard>().request;
  const auto bytes = [](char c) { return std::make_shared<const std::string>(32, c); };
  workers[1]->Emit(ReadData{question, bytes('b'), true, absl::OkStatus()});
  workers[0]->Emit(ReadData{question, bytes('a'), true, absl::OkStatus()});
  EXPECT_EQ(*read.get(), std::string(32, 'a'));
}

TEST_F(ControllerTest, HostBytesGoToEveryWorkerConcernedOnce) {
  StartAll();
  auto buffer = std::make_shared<FullBuffer>(std::vector<std::string>{std::string(20, 'a'), std::string(12, 'b')});
  ASSERT_TRUE(session->MakeArray(ArrayId{1}, ReplicatedSpec({8}, {0, 1, 2, 3}), {{{0, 1, 2, 3}, buffer, {}}}, 0).ok());
  Settle();
  for (const auto& worker : workers) {
    const std::vector<PutArray> puts = worker->All<PutArray>();
    ASSERT_EQ(puts.size(), 1u);
    EXPECT_EQ(puts[0].devices.size(), 4u);
    EXPECT_EQ(puts[0].stream_bytes, 32u);
    worker->Await<StreamChunk>(3);
    const std::vector<StreamChunk> chunks = worker->All<StreamChunk>();
    EXPECT_EQ(chunks[0].data->size(), 20u);
    EXPECT_TRUE(chunks[2].last);
    EXPECT_TRUE(chunks[2].error.ok());
    EXPECT_EQ(chunks[2].stream, puts[0].stream);
  }
  // One object for all.
  EXPECT_EQ(workers[0]->All<StreamChunk>()[0].data, workers[1]->All<StreamChunk>()[0].data);
}

TEST_F(ControllerTest, ABufferOfTheWrongSizeIsTheArraysError) {
  StartAll();
  auto buffer = std::make_shared<FullBuffer>(std::vector<std::string>{std::string(31, 'a')});
  ASSERT_TRUE(session->MakeArray(ArrayId{1}, TiledSpec({8}, {0}), {{{0}, buffer, {}}}, 6).ok());
  const StreamChunk last = workers[0]->Await<StreamChunk>(2);
  EXPECT_TRUE(last.last);
  EXPECT_THAT(Message(last.error), HasSubstr("holds 31 bytes, the array's shard takes 32"));
  EXPECT_EQ(ContextOf(last.error), 6u);
  // What can't be right is refused at once, and the handle keeps the reason.
  EXPECT_FALSE(session->MakeArray(ArrayId{2}, TiledSpec({8}, {0, 1}), {{{0}, buffer, {}}}, 0).ok());
  EXPECT_THAT(Message(Ready({2})), HasSubstr("no host buffer for shard 1"));
  EXPECT_FALSE(session->MakeArray(ArrayId{3}, TiledSpec({8}, {0}), {{{0}, buffer, {{-4}}}}, 0).ok());
}

TEST_F(ControllerTest, DeletesOfNeighboursAreOneCommand) {
  StartAll();
  for (uint64_t id = 1; id <= 20; ++id) ASSERT_TRUE(Put(id, TiledSpec({8}, {0, 2})).ok());
  ASSERT_TRUE(Put(21, TiledSpec({8}, {3})).ok());
  std::vector<ArrayId> all;
  for (uint64_t id = 1; id <= 21; ++id) all.push_back(ArrayId{id});
  ASSERT_TRUE(session->Delete({all.data(), 1}).ok());
  EXPECT_THAT(Message(Ready({1})), HasSubstr("Array has been deleted"));
  all.push_back(ArrayId{999});
  EXPECT_THAT(Message(session->Destruct(all)), HasSubstr("handle 999 isn't known"));
  Settle();
  ASSERT_EQ(workers[0]->All<DeleteArrays>().size(), 2u);
  EXPECT_EQ(workers[0]->All<DeleteArrays>()[1].arrays.size(), 19u);
  EXPECT_EQ(workers[1]->All<DeleteArrays>().size(), 3u);
  EXPECT_THAT(Message(Ready({5})), HasSubstr("isn't known"));
}

TEST_F(ControllerTest, ReadsAndReadiness) {
  StartAll();
  ASSERT_TRUE(Put(1, ReplicatedSpec({8}, {2, 0})).ok());
  ASSERT_TRUE(Put(2, TiledSpec({8}, {0, 1})).ok());
  EXPECT_EQ(*ReadLater(1).get(), "abcd");
  EXPECT_EQ(workers[1]->Await<ReadShard>().device, (PhysicalDevice{ids[1], 0}));  // the first device's
  EXPECT_THAT(Message(ReadLater(2).get().status()), HasSubstr("can't be read as one"));
  EXPECT_TRUE(Ready({1, 2}).ok());
  EXPECT_EQ(workers[1]->All<AwaitReady>().size(), 1u);
  EXPECT_EQ(workers[0]->All<AwaitReady>().size(), 2u);
  EXPECT_TRUE(Ready({}).ok());
}

TEST_F(ControllerTest, ProgramsAreLoadedOnceAndUnloadedWithTheLastHandle) {
  compiler.Register("step", TestProgram("step", 1, 0, 1));
  StartAll();
  const uint64_t one = Compile("step", {0}), two = Compile("step", {1});
  EXPECT_EQ((*session->Program(one))->info.name, "step");
  EXPECT_EQ(*session->ProgramDevices(two), Devices({1}));
  Settle();
  EXPECT_EQ(workers[0]->All<LoadProgram>().size(), 1u);  // before any launch
  EXPECT_EQ(*workers[0]->All<LoadProgram>()[0].executable, "step");
  EXPECT_TRUE(workers[1]->All<LoadProgram>().empty());
  ASSERT_TRUE(session->DestructExecutable(one).ok());
  Settle();
  EXPECT_TRUE(workers[0]->All<UnloadProgram>().empty());
  ASSERT_TRUE(session->DestructExecutable(two).ok());
  Settle();
  EXPECT_EQ(workers[0]->All<UnloadProgram>().size(), 1u);
  EXPECT_FALSE(session->DestructExecutable(two).ok());
  EXPECT_THAT(Message(TryCompile("nothing", {0}).status()), HasSubstr("no such program"));
  EXPECT_THAT(Message(TryCompile("step", {4}).status()), HasSubstr("session's devices are 0 to 3"));
  EXPECT_THAT(Message(TryCompile("step", {0, 1}).status()), HasSubstr("1 partitions, but 2 devices"));
}

TEST_F(ControllerTest, SessionsShareTheSlicesAndEndAlone) {
  compiler.Register("step", TestProgram("step", 2, 0, 1));
  connector.set_automatic(false);
  StartAll();
  Session* other = *Open();
  EXPECT_EQ(rm.leases(), 1u);
  ASSERT_TRUE(Execute(Compile("step", {0, 2}), {}, {1}).ok());
  std::swap(session, other);
  const uint64_t step = Compile("step", {0, 2});
  std::promise<absl::Status> ended;
  ExecuteRequest request;
  request.executable = step;
  request.results = {ArrayId{1}};
  ASSERT_TRUE(session->Execute(request, [&](absl::Status status) { ended.set_value(std::move(status)); }).ok());
  auto ready = WhenReady({1});
  workers[0]->Await<AwaitReady>();
  const std::vector<Launch> launches = workers[0]->All<Launch>();
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_NE(launches[0].session, launches[1].session);
  EXPECT_EQ(launches[1].id.number, launches[0].id.number + 1);
  session->Close(absl::CancelledError("client gone"));
  EXPECT_EQ(compiler.ended(), std::vector<SessionId>{launches[1].session});
  EXPECT_EQ(workers[0]->Await<EndSession>().session, launches[1].session);
  EXPECT_EQ(workers[0]->All<CancelLaunch>().size(), 1u);
  EXPECT_EQ(Message(ready.get()), "client gone");
  std::future<absl::Status> end = ended.get_future();
  ASSERT_EQ(end.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "it isn't the workers' to say";
  EXPECT_EQ(Message(end.get()), "client gone");
  for (const auto& worker : workers) worker->Emit(Watermark{launches[1].id});
  EXPECT_EQ(rm.leases(), 1u);
  other->Close(absl::OkStatus());
  // The last one takes the lease along.
  Settle();
  EXPECT_EQ(rm.leases(), 0u);
}

TEST_F(ControllerTest, TheDoorIsToldWhenLaunchesEnd) {
  connector.set_automatic(false);
  compiler.Register("step", TestProgram("step", 1, 0, 1));
  StartAll();
  const uint64_t step = Compile("step", {0});
  for (uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(Execute(step, {}, {i}).ok());
  EXPECT_EQ(session->under_way(), 5u);
  std::promise<void> resumed;
  session->WhenBelow(3, [&] { resumed.set_value(); });
  std::future<void> future = resumed.get_future();
  workers[0]->Await<Launch>(5);
  const std::vector<Launch> launches = workers[0]->All<Launch>();
  workers[0]->Emit(Watermark{launches[1].id});
  Settle();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  workers[0]->Emit(Watermark{launches[2].id});
  future.get();
  EXPECT_EQ(session->under_way(), 2u);
  const ControllerSnapshot snapshot = Settle();
  ASSERT_EQ(snapshot.homes.size(), 1u);
  EXPECT_EQ(snapshot.homes[0].launches, 5u);
  EXPECT_EQ(snapshot.homes[0].launches_in_flight, 2u);
  EXPECT_EQ(snapshot.homes[0].workers.size(), 2u);
  EXPECT_EQ(snapshot.homes[0].sessions[0].launches_sent, 5u);
}

TEST_F(ControllerTest, TellsWhatIsCompiledAndHowMuchOfItWaits) {
  StartAll();
  EXPECT_EQ(Settle().homes[0].sessions[0].compiles, 0u);
  EXPECT_EQ(Settle().homes[0].sessions[0].compiles_waiting, 0u);  // the compiler says 2, but it was asked later
  std::vector<std::future<absl::Status>> ends;
  for (int i = 1; i <= 3; ++i) {
    auto end = std::make_shared<std::promise<absl::Status>>();
    ends.push_back(end->get_future());
    session->Compile("held", OptionsFor({0}), 0,
                     [end](absl::StatusOr<CompileReply> reply) { end->set_value(reply.status()); });
  }
  const SessionSnapshot told = Settle().homes[0].sessions[0];
  EXPECT_EQ(told.compiles, 3u);
  EXPECT_EQ(told.compiles_waiting, 2u);
  session->Close(absl::OkStatus());
  for (auto& end : ends) EXPECT_EQ(end.get().code(), absl::StatusCode::kCancelled);
}

TEST(VirtualSlices, Words) {
  EXPECT_TRUE(ParseVirtualSlices("")->empty());
  auto two = ParseVirtualSlices("cpu:2x2, cpu:2x2x1");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)[1].type, "cpu:2x2x1");
  for (const char* bad : {"cpu", ":2x2", "cpu:", "cpu:2x", "cpu:x2", "cpu:2x2,", "cpu:axb", "cpu:9999999"}) {
    EXPECT_THAT(std::string(ParseVirtualSlices(bad).status().message()), HasSubstr("TYPE:TOPOLOGY")) << bad;
  }
}

}  // namespace
}  // namespace switchtower
