// What the controller tells of itself and of its workers: snapshots, questions to workers, traces.
#include <gmock/gmock.h>

#include "controller/sessions/testing_controller.h"

namespace switchtower {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class ControllerInspectTest : public ControllerTest {
 protected:
  // Workers that answer nothing by themselves; questions end when the test says so.
  void StartSilent() {
    connector.set_automatic(false);
    AddWorkers();
    ControllerImpl::Options options = Options();
    options.trace = &trace;
    options.run_after = [this](std::chrono::milliseconds, Task task) {
      MutexLock lock(mutex);
      deadlines.push_back(std::move(task));
    };
    controller = std::make_unique<ControllerImpl>(std::move(options));
    session = *Open();
    workers = {connector.Await(ids[0]), connector.Await(ids[1])};
    Settle();
    std::shared_ptr<CompiledProgram> program = TestProgram("step", 4, 1, 1);
    program->info.source = "train.py:31";
    program->info.collectives = {{1, "all-gather", "ag.1", "train.py:40"}, {2, "all-reduce", "ar.2", "train.py:44"}};
    compiler.Register("step", program);
    executable = Compile("step", {0, 1, 2, 3});
  }
  std::future<ControllerSnapshot> Inspect() {
    auto taken = std::make_shared<std::promise<ControllerSnapshot>>();
    controller->Inspect(std::chrono::milliseconds(100),
                        [taken](ControllerSnapshot snapshot) { taken->set_value(std::move(snapshot)); });
    return taken->get_future();
  }
  void PassDeadlines() {
    Settle();  // the questions were asked
    std::vector<Task> due;
    {
      MutexLock lock(mutex);
      due.swap(deadlines);
    }
    for (Task& task : due) task();
  }
  WorkerActivity Answer(int worker, size_t question = 1) {
    WorkerActivity answer;
    answer.request = workers[worker]->Await<AskActivity>(question).request;
    answer.devices.resize(2);
    return answer;
  }
  LaunchId OnlyLaunch() { return workers[0]->Await<Launch>().id; }

  TraceRecorder trace;
  Mutex mutex;
  std::vector<Task> deadlines;
  uint64_t executable = 0;
};

TEST_F(ControllerInspectTest, TellsWhatIsInFlightAndWhoWaits) {
  StartSilent();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(executable, {1}, {2}).ok());
  std::future<absl::Status> ready = WhenReady({2});
  HomeSnapshot home = Settle().homes.at(0);
  ASSERT_THAT(home.programs, SizeIs(1));
  EXPECT_EQ(home.programs[0].name, "step");
  EXPECT_EQ(home.programs[0].source, "train.py:31");
  EXPECT_EQ(home.programs[0].uses, 1);
  EXPECT_EQ(home.programs[0].workers, 2);
  ASSERT_THAT(home.in_flight, SizeIs(1));
  const LaunchSnapshot& launch = home.in_flight[0];
  EXPECT_EQ(launch.id, OnlyLaunch());
  EXPECT_EQ(launch.name, "step");
  EXPECT_THAT(launch.arguments, ElementsAre(ArrayId{1}));
  EXPECT_THAT(launch.results, ElementsAre(ArrayId{2}));
  EXPECT_THAT(launch.ranks, ElementsAre(DevicePlace{0, 0}, DevicePlace{0, 1}, DevicePlace{1, 0}, DevicePlace{1, 1}));
  EXPECT_THAT(launch.open_seats, ElementsAre(0, 1));
  ASSERT_THAT(home.waits, SizeIs(1));
  EXPECT_THAT(home.waits[0].arrays, ElementsAre(ArrayId{2}));
  EXPECT_THAT(home.waits[0].open_seats, ElementsAre(0, 1));
  EXPECT_FALSE(home.waits[0].read);
  ASSERT_THAT(home.sessions, SizeIs(1));
  ASSERT_THAT(home.sessions[0].devices, SizeIs(4));
  EXPECT_EQ(home.sessions[0].devices[3].id, DeviceId{3});
  EXPECT_EQ(home.sessions[0].devices[3].place, (DevicePlace{1, 1}));

  workers[0]->Emit(Watermark{launch.id});
  workers[0]->Emit(switchtower::Ready{workers[0]->Await<AwaitReady>().request, absl::OkStatus()});
  home = Settle().homes.at(0);
  EXPECT_THAT(home.in_flight.at(0).open_seats, ElementsAre(1));
  EXPECT_THAT(home.waits.at(0).open_seats, ElementsAre(1));
  workers[1]->Emit(Watermark{launch.id});
  workers[1]->Emit(switchtower::Ready{workers[1]->Await<AwaitReady>().request, absl::OkStatus()});
  home = Settle().homes.at(0);
  EXPECT_THAT(home.in_flight, IsEmpty());
  EXPECT_THAT(home.waits, IsEmpty());
  EXPECT_TRUE(ready.get().ok());
}

TEST_F(ControllerInspectTest, AnswersOfAllWorkersMakeOneCollective) {
  StartSilent();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(executable, {1}, {2}).ok());
  const LaunchId launch = OnlyLaunch();
  std::future<ControllerSnapshot> inspected = Inspect();
  // Ranks 0 and 1 are here and rank 2's worker has sent; the other worker knows better of its own.
  WorkerActivity first = Answer(0), second = Answer(1);
  first.collectives = {{launch, 2, 0, 0, "all-reduce", {0, 1}, {2, 3}, 500}};
  first.devices[1].bytes = 99;
  second.collectives = {{launch, 2, 0, 0, "all-reduce", {2, 0}, {1, 3}, 700}};
  workers[0]->Emit(first);
  workers[1]->Emit(second);
  const HomeSnapshot home = inspected.get().homes.at(0);
  ASSERT_THAT(home.collectives, SizeIs(1));
  const CollectiveSnapshot& collective = home.collectives[0];
  EXPECT_EQ(collective.kind, "all-reduce");
  EXPECT_EQ(collective.name, "ar.2");
  EXPECT_EQ(collective.source, "train.py:44");
  EXPECT_THAT(collective.ranks_in, ElementsAre(0, 1, 2));
  EXPECT_THAT(collective.ranks_out, ElementsAre(3));
  EXPECT_THAT(collective.ranks_unknown, IsEmpty());
  EXPECT_EQ(collective.age_us, 700);
  EXPECT_EQ(home.workers.at(0).activity->devices[1].bytes, 99u);
  EXPECT_EQ(home.workers.at(0).silent_us, 0);
}

TEST_F(ControllerInspectTest, AWorkerThatOwesAnAnswerIsToldAndNotAskedAgain) {
  StartSilent();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(executable, {1}, {2}).ok());
  std::future<ControllerSnapshot> inspected = Inspect();
  WorkerActivity first = Answer(0);
  first.collectives = {{OnlyLaunch(), 1, 0, 0, "all-gather", {0, 1, 2}, {3}, 500}};
  workers[0]->Emit(first);
  PassDeadlines();
  HomeSnapshot home = inspected.get().homes.at(0);
  EXPECT_EQ(home.workers.at(0).silent_us, 0);
  EXPECT_GT(home.workers.at(1).silent_us, 0);
  EXPECT_FALSE(home.workers.at(1).activity.has_value());
  // Rank 2's message came; of rank 3 nobody knows.
  EXPECT_THAT(home.collectives.at(0).ranks_in, ElementsAre(0, 1, 2));
  EXPECT_THAT(home.collectives.at(0).ranks_unknown, ElementsAre(3));

  inspected = Inspect();
  workers[0]->Emit(Answer(0, 2));
  Settle();
  EXPECT_THAT(workers[1]->All<AskActivity>(), SizeIs(1));
  workers[1]->Emit(Answer(1));  // late: to the first question, and good for the second
  home = inspected.get().homes.at(0);
  EXPECT_EQ(home.workers.at(1).silent_us, 0);
  EXPECT_TRUE(home.workers.at(1).activity.has_value());
}

TEST_F(ControllerInspectTest, ALostWorkerOwesNothing) {
  StartSilent();
  std::future<ControllerSnapshot> inspected = Inspect();
  workers[0]->Emit(Answer(0));
  connector.Refuse(ids[1]);
  workers[1]->Await<AskActivity>();
  workers[1]->Break(absl::UnavailableError("gone"));
  const HomeSnapshot home = inspected.get().homes.at(0);
  ASSERT_THAT(home.workers, SizeIs(2));
  EXPECT_EQ(home.workers[1].state, WorkerSnapshot::State::kDown);
  EXPECT_EQ(home.workers[1].name, "slice s1 host 0");
}

TEST_F(ControllerInspectTest, WhatIsQueuedNamesTheSeatsWithoutAWorker) {
  ids = {rm.AddWorker(0, 0, Type())};
  StartController();
  session = *Open();
  compiler.Register("step", TestProgram("step", 4, 1, 1));
  executable = Compile("step", {0, 1, 2, 3});
  ASSERT_TRUE(session->Program(executable).ok());  // takes it in, ahead of what follows
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(Execute(executable, {1}, {2}).ok());
  const HomeSnapshot home = Settle().homes.at(0);
  EXPECT_EQ(home.workers.at(1).state, WorkerSnapshot::State::kWaiting);
  const std::vector<QueuedSnapshot>& queue = home.sessions.at(0).queue;
  ASSERT_THAT(queue, SizeIs(2));
  EXPECT_EQ(queue[0].what, "array 1 from the host");
  EXPECT_THAT(queue[0].makes, ElementsAre(ArrayId{1}));
  EXPECT_EQ(queue[0].waits_for, "slice s1 host 0, where no worker has come in yet");
  EXPECT_EQ(queue[1].what, "launch of step");
  EXPECT_THAT(queue[1].uses, ElementsAre(ArrayId{1}));
  EXPECT_THAT(queue[1].makes, ElementsAre(ArrayId{2}));
}

TEST_F(ControllerInspectTest, RecordsWhileSomebodyTraces) {
  StartSilent();
  ASSERT_TRUE(Put(1, TiledSpec({8}, {0, 1, 2, 3})).ok());
  ASSERT_TRUE(session->Program(executable).ok());
  Settle();
  ASSERT_TRUE(trace.Start());
  EXPECT_FALSE(trace.Start());  // one at a time
  controller->ReportTimes(true);
  ASSERT_TRUE(Execute(executable, {1}, {2}).ok());
  EXPECT_TRUE(workers[1]->Await<ReportTimes>().on);
  const LaunchId launch = OnlyLaunch();
  workers[1]->Emit(LaunchTimes{{{launch, 1, 1000, 3000}}});
  workers[0]->Emit(TransferTimes{{{launch, ids[1], 64, 5000, 6000}}});
  Settle();
  controller->ReportTimes(false);
  const TraceRecorder::Recording recording = trace.Stop();
  EXPECT_FALSE(workers[1]->Await<ReportTimes>(2).on);
  ASSERT_THAT(recording.spans, SizeIs(3));
  EXPECT_EQ(recording.spans[0].kind, TraceSpan::Kind::kSequence);
  EXPECT_EQ(recording.spans[0].name, "launch of step");
  EXPECT_EQ(recording.spans[0].first_array, ArrayId{2});
  EXPECT_EQ(recording.spans[0].launch, launch);
  EXPECT_LE(recording.spans[0].begin_ns, recording.spans[0].end_ns);
  EXPECT_EQ(recording.spans[1].kind, TraceSpan::Kind::kExecute);
  EXPECT_EQ(recording.spans[1].name, "step");
  EXPECT_EQ(recording.spans[1].worker, "slice s1 host 0");
  EXPECT_EQ(recording.spans[1].device, 1);
  EXPECT_EQ(recording.spans[1].end_ns, 3000u);
  EXPECT_EQ(recording.spans[2].kind, TraceSpan::Kind::kTransfer);
  EXPECT_EQ(recording.spans[2].worker, "slice s0 host 0");
  EXPECT_EQ(recording.spans[2].to_worker, "slice s1 host 0");
  EXPECT_EQ(recording.spans[2].bytes, 64u);
  ASSERT_TRUE(Execute(executable, {1}, {3}).ok());
  Settle();
  EXPECT_THAT(trace.Stop().spans, IsEmpty());
}

}  // namespace
}  // namespace switchtower
