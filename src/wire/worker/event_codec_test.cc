#include <random>
#include <string>
#include <vector>

#include "wire/worker/hello.h"
#include "wire/worker/testing_codec.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

TEST(EventCodec, FieldsAreNotMixedUp) {
  EXPECT_EQ(EventRoundTrip(Watermark{{7, 8}}).completed, (LaunchId{7, 8}));
  EXPECT_TRUE(EventRoundTrip(Ready{{4}, absl::OkStatus()}).status.ok());
  const ReadData data = EventRoundTrip(ReadData{{4}, Bytes("shard"), true, absl::OkStatus()});
  EXPECT_EQ(*data.data, "shard");
  EXPECT_TRUE(data.last);
  EXPECT_EQ(EventRoundTrip(ProgramLoadFailed{{"ab"}, absl::InternalError("x")}).program.hash, "ab");
  const WorkerStats stats = EventRoundTrip(WorkerStats{1, 2, 3, 4, 5, 6, 7, 8, 9, {10, 11}});
  EXPECT_EQ(stats.launches, 1u);
  EXPECT_EQ(stats.bytes_tcp, 5u);
  EXPECT_EQ(stats.buffers, 9u);
}

TEST(EventCodec, StatusesKeepTheirPayloads) {
  EXPECT_EQ(EventRoundTrip(Ready{{4}, CauseWithPayload()}).status, CauseWithPayload());
  const LaunchFailed failed = EventRoundTrip(LaunchFailed{{1, 2}, {3}, CauseWithPayload(), false});
  EXPECT_EQ(failed.cause, CauseWithPayload());
  EXPECT_EQ(failed.launch, (LaunchId{1, 2}));
  EXPECT_FALSE(failed.origin);
}

TEST(EventCodec, HostCalls) {
  HostCall call;
  call.request = RequestId{3};
  call.launch = {7, 8};
  call.session = SessionId{11};
  call.rank = 2;
  call.callback = 5;
  call.operands = {Shape{DType::kToken, {}}, Shape{DType::kS4, {3}}, Shape{DType::kF32, {1}}};
  call.results = {Shape{DType::kF64, {2, 0}}};
  call.data = Bytes("123456");  // two packed bytes and four
  const HostCall back = EventRoundTrip(call);
  EXPECT_EQ(back.request, call.request);
  EXPECT_EQ(back.launch, call.launch);
  EXPECT_EQ(back.session, call.session);
  EXPECT_EQ(back.rank, 2);
  EXPECT_EQ(back.callback, 5u);
  EXPECT_EQ(back.operands, call.operands);
  EXPECT_EQ(back.results, call.results);
  EXPECT_EQ(*back.data, "123456");
  call.data = Bytes("12345");
  EXPECT_FALSE(DecodeEvent(Body(WorkerEvent(call))).ok());
  call.operands = {Shape{DType::kF64, {int64_t{1} << 60}}, Shape{DType::kF64, {int64_t{1} << 60}}};
  EXPECT_FALSE(DecodeEvent(Body(WorkerEvent(call))).ok());
}

TEST(EventCodec, TimesAndMemory) {
  const MemoryInUse memory = EventRoundTrip(MemoryInUse{{3}, {{1, 2}, {3, 4}}});
  ASSERT_EQ(memory.devices.size(), 2u);
  EXPECT_EQ(memory.devices[1].bytes, 3u);
  EXPECT_EQ(memory.devices[1].peak_bytes, 4u);
  const LaunchTimes times = EventRoundTrip(LaunchTimes{{{{1, 5}, 0, 100, 200}, {{1, 6}, 1, 200, 200}}});
  ASSERT_EQ(times.spans.size(), 2u);
  EXPECT_EQ(times.spans[1].launch, (LaunchId{1, 6}));
  EXPECT_EQ(times.spans[1].ordinal, 1);
  EXPECT_EQ(times.spans[0].begin_ns, 100);
  EXPECT_EQ(times.spans[0].end_ns, 200);
  EXPECT_FALSE(DecodeEvent(Body(WorkerEvent(LaunchTimes{{{{1, 5}, 0, 200, 100}}}))).ok());
  EXPECT_FALSE(DecodeEvent(Body(WorkerEvent(LaunchTimes{{{{1, 5}, -1, 100, 200}}}))).ok());
}

WorkerActivity SomeActivity() {
  WorkerActivity activity;
  activity.request = {3};
  activity.devices.resize(2);
  activity.devices[1].tasks = {{{7, 8}, 2, "jit_step", true, 50, false, {}},
                               {{7, 9}, 3, "jit_f", false, 4, true, {1, 5}}};
  activity.devices[1].queued = 6;
  activity.devices[1].bytes = 70;
  activity.devices[1].peak_bytes = 80;
  activity.devices[1].busy_ns = 90;
  activity.collectives = {{{7, 8}, 4, 5, 6, "all-reduce", {0, 1}, {2}, 9}};
  activity.transfers = {{{7, 10}, {11}, {12}, {13}, 1, {kD0.worker, kD3.worker}, 14, 15}};
  activity.uploads = {{{11}, {16}, 17, 18}};
  activity.calls = {{{7, 8}, 2, 19, 20}};
  activity.fault_points = {"collective.join:rank=3"};
  return activity;
}

TEST(EventCodec, TransferTimesComeBack) {
  const TransferTimes back = EventRoundTrip(TransferTimes{{{{7, 8}, kD0.worker, 9, 10, 11}}});
  ASSERT_EQ(back.spans.size(), 1u);
  EXPECT_EQ(back.spans[0].transfer, (LaunchId{7, 8}));
  EXPECT_EQ(back.spans[0].to, kD0.worker);
  EXPECT_EQ(back.spans[0].bytes, 9u);
  EXPECT_EQ(back.spans[0].begin_ns, 10);
  EXPECT_EQ(back.spans[0].end_ns, 11);
  EXPECT_FALSE(DecodeEvent(Body(WorkerEvent(TransferTimes{{{{7, 8}, kD0.worker, 9, 11, 10}}}))).ok());
}

TEST(EventCodec, ActivityComesBack) {
  const WorkerActivity activity = SomeActivity();
  const WorkerActivity back = EventRoundTrip(activity);
  EXPECT_EQ(Body(WorkerEvent(back)), Body(WorkerEvent(activity)));
  ASSERT_EQ(back.devices.size(), 2u);
  const WorkerActivity::Device& device = back.devices[1];
  ASSERT_EQ(device.tasks.size(), 2u);
  EXPECT_EQ(device.tasks[0].launch, (LaunchId{7, 8}));
  EXPECT_EQ(device.tasks[0].rank, 2);
  EXPECT_TRUE(device.tasks[0].running);
  EXPECT_EQ(device.tasks[0].age_us, 50);
  EXPECT_EQ(device.tasks[1].program, "jit_f");
  EXPECT_TRUE(device.tasks[1].program_loading);
  EXPECT_EQ(device.tasks[1].missing_arguments, (std::vector<uint32_t>{1, 5}));
  EXPECT_EQ(device.queued, 6u);
  EXPECT_EQ(device.bytes, 70u);
  EXPECT_EQ(device.peak_bytes, 80u);
  EXPECT_EQ(device.busy_ns, 90u);
  ASSERT_EQ(back.collectives.size(), 1u);
  EXPECT_EQ(back.collectives[0].op_id, 4u);
  EXPECT_EQ(back.collectives[0].iteration, 5u);
  EXPECT_EQ(back.collectives[0].group, 6u);
  EXPECT_EQ(back.collectives[0].kind, "all-reduce");
  EXPECT_EQ(back.collectives[0].ranks_in, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(back.collectives[0].ranks_open, (std::vector<int64_t>{2}));
  EXPECT_EQ(back.collectives[0].age_us, 9);
  ASSERT_EQ(back.transfers.size(), 1u);
  EXPECT_EQ(back.transfers[0].id, (LaunchId{7, 10}));
  EXPECT_EQ(back.transfers[0].session, SessionId{11});
  EXPECT_EQ(back.transfers[0].from, ArrayId{12});
  EXPECT_EQ(back.transfers[0].to, ArrayId{13});
  EXPECT_EQ(back.transfers[0].ordinal, 1);
  EXPECT_EQ(back.transfers[0].sources, (std::vector<WorkerId>{kD0.worker, kD3.worker}));
  EXPECT_EQ(back.transfers[0].bytes_missing, 14u);
  EXPECT_EQ(back.transfers[0].age_us, 15);
  ASSERT_EQ(back.uploads.size(), 1u);
  EXPECT_EQ(back.uploads[0].array, ArrayId{16});
  EXPECT_EQ(back.uploads[0].bytes_here, 17u);
  EXPECT_EQ(back.uploads[0].bytes_expected, 18u);
  ASSERT_EQ(back.calls.size(), 1u);
  EXPECT_EQ(back.calls[0].rank, 2);
  EXPECT_EQ(back.calls[0].callback, 19u);
  EXPECT_EQ(back.calls[0].age_us, 20);
  EXPECT_EQ(back.fault_points, activity.fault_points);
}

TEST(EventCodec, EmptyOnesKeepTheirKind) {
  for (const WorkerEvent& event : EmptyOnes<WorkerEvent>()) {
    const absl::StatusOr<WorkerEvent> back = DecodeEvent(Body(event));
    EXPECT_EQ(back.status().message().find("of no known kind"), std::string::npos) << event.index();
    if (back.ok()) {
      EXPECT_EQ(back->index(), event.index());
    }
  }
}

TEST(EventCodec, BrokenBytesNeverCrash) {
  std::mt19937 random(20240229);
  int accepted = 0, refused = 0;
  for (const WorkerEvent& event :
       {WorkerEvent(SomeActivity()), WorkerEvent(LaunchFailed{{1, 2}, {3}, CauseWithPayload(), false})}) {
    const std::string seed = Body(event);
    for (size_t length = 0; length < seed.size(); ++length) (void)DecodeEvent(seed.substr(0, length));
    for (int i = 0; i < 2000; ++i) {
      absl::StatusOr<WorkerEvent> decoded = DecodeEvent(Broken(seed, random));
      if (decoded.ok()) {
        ++accepted;
        EXPECT_TRUE(DecodeEvent(Body(*decoded)).ok());
      } else {
        ++refused;
        EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

TEST(Hello, RoundTrip) {
  ControllerHello hello{kWorkerProtocolVersion, "cluster", WorkerId{5}, "secret", 17, "proxy 1"};
  absl::StatusOr<ControllerHello> back = DecodeHello(EncodeHello(hello));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->cluster_id, "cluster");
  EXPECT_EQ(back->worker, WorkerId{5});
  EXPECT_EQ(back->lease_secret, "secret");
  EXPECT_EQ(back->home_epoch, 17u);

  WorkerHelloReply reply{kWorkerProtocolVersion, absl::FailedPreconditionError("old epoch"), WorkerId{5}, 4,
                         DeviceType{"cpu", "cpu", "avx", {"device", "pinned_host"}}};
  absl::StatusOr<WorkerHelloReply> reply_back = DecodeHelloReply(EncodeHelloReply(reply));
  ASSERT_TRUE(reply_back.ok());
  EXPECT_EQ(reply_back->status, reply.status);
  EXPECT_EQ(reply_back->device_type, reply.device_type);
  EXPECT_EQ(reply_back->num_devices, 4);
}

TEST(Hello, BrokenBytesNeverCrash) {
  std::mt19937 random(20240229);
  const std::string seed =
      EncodeHello(ControllerHello{kWorkerProtocolVersion, "cluster", WorkerId{5}, "secret", 17, "proxy 1"});
  int refused = 0;
  for (int i = 0; i < 2000; ++i) refused += !DecodeHello(Broken(seed, random)).ok();
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace switchtower
