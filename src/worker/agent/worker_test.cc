// Commands of one controller to one worker: put, launch, read, bind, donate, delete.
#include "worker/agent/worker.h"

#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/agent/testing_worker.h"

namespace switchtower {
namespace {

using Floats = std::vector<float>;

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() {
    cluster_.DefineGang(1, {d0_});
    cluster_.DefineGang(2, {d1_, d0_});
    cluster_.Load("add_one", 1, 1);
    cluster_.Load("sum", 2, 1);
  }
  PutArray SomePut(uint64_t array, Shape shape, uint64_t stream, uint64_t bytes) {
    PutArray put;
    put.array = TestCluster::Key(array);
    put.devices = {d0_};
    put.layout = Layout::Default(shape.rank());
    put.shard_shape = std::move(shape);
    put.stream = {stream};
    put.stream_bytes = bytes;
    return put;
  }
  TestController& controller() { return cluster_.controller(0); }
  FakeEngine& engine() { return cluster_.node(0).engine; }

  TestCluster cluster_{1};
  const PhysicalDevice d0_ = cluster_.Device(0, 0);
  const PhysicalDevice d1_ = cluster_.Device(0, 1);
};

TEST_F(WorkerTest, PutLaunchRead) {
  cluster_.Put(1, {d0_, d1_}, {1, 2, 3});
  cluster_.Launch(1, "add_one", 2, {1}, {2});
  cluster_.Launch(2, "add_one", 2, {2}, {3});
  EXPECT_EQ(*cluster_.ReadFloats(3, d0_), (Floats{3, 4, 5}));
  EXPECT_EQ(*cluster_.ReadFloats(3, d1_), (Floats{3, 4, 5}));
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(2)));
  EXPECT_TRUE(controller().Await(TestCluster::kSession, {{1}, {2}, {3}}).ok());
  EXPECT_TRUE(controller().failures().empty());
  EXPECT_THAT(cluster_.node(0).collectives.ended(), testing::SizeIs(2));
}

TEST_F(WorkerTest, InputsMayComeAfterTheLaunch) {
  controller().Send(SomePut(1, Shape{DType::kF32, {2}}, 9, 8));
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  cluster_.Settle(0);
  EXPECT_TRUE(engine().executed().empty());
  controller().Send(StreamChunk{{9}, Shared(AsBytes({1})), false, 1, {}});
  controller().Send(StreamChunk{{9}, Shared(AsBytes({2})), true, 1, {}});
  EXPECT_EQ(*cluster_.ReadFloats(2, d0_), (Floats{2, 3}));
}

TEST_F(WorkerTest, ExecuteRunsAheadOfResults) {
  engine().Hold();
  cluster_.Put(1, {d0_}, {1});
  for (uint64_t i = 1; i <= 3; ++i) cluster_.Launch(i, "add_one", 1, {i}, {i + 1});
  std::thread release([&] {
    while (engine().executed().size() < 3) std::this_thread::yield();
    engine().Release();
  });
  EXPECT_EQ(*cluster_.ReadFloats(4, d0_), (Floats{4}));
  release.join();
}

TEST_F(WorkerTest, ChunksMayComeBeforeThePutAndServeSeveral) {
  controller().Send(StreamChunk{{9}, Shared("abc"), false, 1, {}});
  controller().Send(StreamChunk{{9}, Shared("def"), true, 2, {}});
  controller().Send(SomePut(1, Shape{DType::kU8, {6}}, 9, 6));
  controller().Send(SomePut(2, Shape{DType::kU8, {2, 3}}, 9, 6));
  EXPECT_EQ(*controller().Read(TestCluster::Key(1), d0_), "abcdef");
  EXPECT_EQ(*controller().Read(TestCluster::Key(2), d0_), "abcdef");
}

TEST_F(WorkerTest, StridesAndLayouts) {
  // A column-major host array, kept column major on the device, read row major and column major.
  PutArray put = SomePut(1, Shape{DType::kU8, {2, 3}}, 9, 6);
  put.byte_strides = std::vector<int64_t>{1, 2};
  put.layout = Layout{{0, 1}};
  controller().Send(put);
  controller().Send(StreamChunk{{9}, Shared("adbecf"), true, 1, {}});
  EXPECT_EQ(*controller().Read(TestCluster::Key(1), d0_), "abcdef");
  EXPECT_EQ(*controller().Read(TestCluster::Key(1), d0_, std::vector<int64_t>{1, 2}), "adbecf");
  EXPECT_EQ(controller().Read(TestCluster::Key(1), d0_, std::vector<int64_t>{-1, 2}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerTest, ScalarsAndEmptyArraysAndStrings) {
  controller().Send(SomePut(1, Shape{DType::kU8, {}}, 1, 1));
  controller().Send(StreamChunk{{1}, Shared("x"), true, 1, {}});
  controller().Send(SomePut(2, Shape{DType::kF32, {0, 3}}, 2, 0));
  controller().Send(StreamChunk{{2}, Shared(""), true, 1, {}});
  controller().Send(SomePut(3, Shape{DType::kString, {2}}, 3, 0));
  controller().Send(StreamChunk{{3}, Shared("two s"), true, 1, {}});
  EXPECT_EQ(*controller().Read(TestCluster::Key(1), d0_), "x");
  EXPECT_EQ(*controller().Read(TestCluster::Key(2), d0_), "");
  EXPECT_EQ(*controller().Read(TestCluster::Key(3), d0_), "two s");
}

TEST_F(WorkerTest, WrongByteCounts) {
  controller().Send(SomePut(1, Shape{DType::kF32, {2}}, 1, 8));
  controller().Send(StreamChunk{{1}, Shared("1234"), true, 1, {}});
  EXPECT_EQ(cluster_.Status(1, d0_).code(), absl::StatusCode::kDataLoss);
  controller().Send(SomePut(2, Shape{DType::kF32, {2}}, 2, 4));
  controller().Send(StreamChunk{{2}, Shared("1234"), true, 1, {}});
  EXPECT_EQ(cluster_.Status(2, d0_).code(), absl::StatusCode::kInvalidArgument);
  controller().Send(SomePut(3, Shape{DType::kF32, {2}}, 3, 8));
  controller().Send(StreamChunk{{3}, nullptr, true, 1, absl::UnavailableError("client gone")});
  EXPECT_EQ(cluster_.Status(3, d0_), absl::UnavailableError("client gone"));
}

TEST_F(WorkerTest, LargeReadsComeInChunks) {
  Floats values(3 * (1 << 20) / 4 + 5);
  std::iota(values.begin(), values.end(), 0.f);
  cluster_.Put(1, {d0_}, values);
  EXPECT_EQ(*cluster_.ReadFloats(1, d0_), values);
  EXPECT_EQ(controller().chunks_read(), 4);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(*cluster_.ReadFloats(1, d0_), values);
}

TEST_F(WorkerTest, BoundNamesShareAndKeepTheBuffer) {
  cluster_.Put(1, {d0_}, {5});
  controller().Send(BindArrays{TestCluster::kSession, {{{1}, {2}, d0_}}});
  controller().Send(DeleteArrays{TestCluster::kSession, {{1}}});
  EXPECT_EQ(*cluster_.ReadFloats(2, d0_), (Floats{5}));
  EXPECT_EQ(cluster_.Status(1, d0_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine().live_buffers(), 1);
}

TEST_F(WorkerTest, DeleteDoesNotHurtWorkSentBefore) {
  engine().Hold();
  cluster_.Put(1, {d0_}, {1});
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  cluster_.Launch(2, "add_one", 1, {2}, {3});
  controller().Send(DeleteArrays{TestCluster::kSession, {{1}, {2}}});
  std::thread release([&] {
    while (engine().executed().size() < 2) std::this_thread::yield();
    engine().Release();
  });
  EXPECT_EQ(*cluster_.ReadFloats(3, d0_), (Floats{3}));
  release.join();
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(2)));
  cluster_.Settle(0);
  controller().Send(DeleteArrays{TestCluster::kSession, {{3}}});
  cluster_.Settle(0);
  EXPECT_EQ(engine().live_buffers(), 0);
}

class DonationTest : public WorkerTest {
 protected:
  DonationTest() {
    engine().RegisterProgram("take", 1, {0},
                             [](const FakeCall& call) { return std::vector<FakeValue>{call.arguments[0]}; });
    engine().RegisterProgram("take_of_two", 1, {0},
                             [](const FakeCall& call) { return std::vector<FakeValue>{call.arguments[0]}; });
    cluster_.Load("take", 1, 1);
    cluster_.Load("take_of_two", 2, 1);
    cluster_.Put(1, {d0_}, {7});
  }
};

TEST_F(DonationTest, ADonatedArrayReadsAsDonated) {
  cluster_.Launch(1, "take", 1, {1}, {2}, {0});
  EXPECT_EQ(*cluster_.ReadFloats(2, d0_), (Floats{7}));
  const absl::Status status = cluster_.Status(1, d0_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("donated to launch 1.1"));
}

TEST_F(DonationTest, WithoutPermissionTheArgumentSurvives) {
  cluster_.Launch(1, "take", 1, {1}, {2});
  EXPECT_EQ(*cluster_.ReadFloats(1, d0_), (Floats{7}));
}

TEST_F(DonationTest, ASharedBufferSurvivesUnderItsOtherName) {
  controller().Send(BindArrays{TestCluster::kSession, {{{1}, {3}, d0_}}});
  cluster_.Launch(1, "take", 1, {1}, {2}, {0});
  EXPECT_EQ(*cluster_.ReadFloats(3, d0_), (Floats{7}));
  EXPECT_FALSE(cluster_.Status(1, d0_).ok());
  cluster_.Launch(2, "take", 1, {3}, {4}, {0});  // now it has one name
  EXPECT_FALSE(cluster_.Status(3, d0_).ok());
  EXPECT_EQ(*cluster_.ReadFloats(4, d0_), (Floats{7}));
}

TEST_F(DonationTest, AnArgumentGivenTwiceIsNotTaken) {
  cluster_.Launch(1, "take_of_two", 1, {1, 1}, {2}, {0});
  EXPECT_EQ(*cluster_.ReadFloats(2, d0_), (Floats{7}));
}

TEST_F(DonationTest, AReadSentBeforeKeepsTheBuffer) {
  // The read waits for a program that is held; the launch that may take its buffer executes meanwhile.
  engine().Hold();
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  controller().Send(ReadShard{{1000}, TestCluster::Key(2), d0_, std::nullopt});
  cluster_.Launch(2, "take", 1, {2}, {3}, {0});
  while (engine().executed().size() < 2) std::this_thread::yield();
  engine().Release();
  EXPECT_EQ(*cluster_.ReadFloats(3, d0_), (Floats{8}));
  EXPECT_EQ(AsFloats(*controller().AwaitRead(1000)), (Floats{8}));
}

TEST_F(WorkerTest, TellsWhenLaunchesHadTheirDevicesWhileAskedFor) {
  cluster_.Put(1, {d0_}, {1});
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  ASSERT_TRUE(controller().AwaitWatermark({1, 1}));
  EXPECT_TRUE(controller().times().empty());

  controller().Send(ReportTimes{true});
  cluster_.Launch(2, "add_one", 1, {2}, {3});
  cluster_.Launch(3, "add_one", 1, {3}, {4});
  ASSERT_TRUE(controller().AwaitWatermark({1, 3}));
  const std::vector<LaunchTimes::Span> times = controller().times();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].launch, (LaunchId{1, 2}));
  EXPECT_EQ(times[1].launch, (LaunchId{1, 3}));
  EXPECT_LE(times[0].begin_ns, times[0].end_ns);
  EXPECT_LE(times[0].end_ns, times[1].begin_ns);  // one after the other

  controller().Send(ReportTimes{false});
  cluster_.Launch(4, "add_one", 1, {4}, {5});
  ASSERT_TRUE(controller().AwaitWatermark({1, 4}));
  EXPECT_EQ(controller().times().size(), 2u);
}

TEST_F(WorkerTest, StatsCountWhatHappened) {
  cluster_.Put(1, {d0_}, {1, 2});
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  EXPECT_EQ(*cluster_.ReadFloats(2, d0_), (Floats{2, 3}));
  cluster_.node(0).worker->PublishStats();
  const auto stats = controller().AwaitStats([](const WorkerStats& s) { return s.bytes_read == 8; });
  ASSERT_TRUE(stats.has_value());
  EXPECT_EQ(stats->launches, 1u);
  ASSERT_FALSE(stats->busy_ns.empty());
  EXPECT_GT(stats->busy_ns[0], 0u);
  EXPECT_EQ(stats->bytes_put, 8u);
  EXPECT_EQ(stats->buffers, 2u);
  EXPECT_EQ(stats->buffer_bytes, 16u);
}

TEST_F(WorkerTest, LaunchesForOthersAreOnlyCounted) {
  cluster_.DefineGang(5, {{WorkerId{99}, 0}});
  cluster_.Launch(1, "nobody loaded this", 5, {1}, {2});
  EXPECT_TRUE(controller().AwaitWatermark(TestCluster::Id(1)));
  EXPECT_TRUE(engine().executed().empty());
}

}  // namespace
}  // namespace switchtower
