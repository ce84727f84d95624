#include "wire/worker/worker_codec.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/cord.h"
#include "switchtower/worker.pb.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/hello.h"

namespace switchtower {
namespace {

std::string Body(const WorkerCommand& command) {
  std::string body = EncodeCommandHead(command);
  if (auto payload = CommandPayload(command)) body += *payload;
  return body;
}

std::string Body(const WorkerEvent& event) {
  std::string body = EncodeEventHead(event);
  if (auto payload = EventPayload(event)) body += *payload;
  return body;
}

template <typename T>
T RoundTrip(const T& value) {
  absl::StatusOr<WorkerCommand> decoded = DecodeCommand(Body(WorkerCommand(value)));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<T>(*decoded);
}

template <typename T>
T EventRoundTrip(const T& value) {
  absl::StatusOr<WorkerEvent> decoded = DecodeEvent(Body(WorkerEvent(value)));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<T>(*decoded);
}

std::shared_ptr<const std::string> Bytes(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

absl::Status CauseWithPayload() {
  absl::Status cause = absl::DataLossError("slice 1 is gone");
  cause.SetPayload("type.googleapis.com/ifrt.UserContext", absl::Cord("17"));
  return cause;
}

const PhysicalDevice kD0{WorkerId{0xfedcba9876543210u}, 0};
const PhysicalDevice kD3{WorkerId{7}, 3};

TransferArray SomeTransfer() {
  TransferArray transfer;
  transfer.id = {3, 4};
  transfer.session = {5};
  transfer.from = {6};
  transfer.to = {7};
  transfer.destinations = {{kD3, Shape{DType::kF32, {4, 6}}}};
  transfer.layout = Layout{{0, 1}};
  transfer.memory_kind = "pinned_host";
  transfer.pieces = {{kD0, kD3, Box{{0, 0}, {4, 2}}, Box{{0, 0}, {4, 2}}},
                     {kD0, kD3, Box{{8, 1}, {4, 4}}, Box{{0, 2}, {4, 4}}}};
  return transfer;
}

PutArray SomePut() {
  PutArray put;
  put.array = {{1}, {2}};
  put.devices = {kD0, kD3};
  put.shard_shape = Shape{DType::kBF16, {2, 3}};
  put.byte_strides = std::vector<int64_t>{2, -4};
  put.layout = Layout{{1, 0}};
  put.memory_kind = "device";
  put.stream = {9};
  put.stream_bytes = 12;
  return put;
}

Launch SomeLaunch() {
  Launch launch;
  launch.id = {2, 99};
  launch.session = {11};
  launch.program = {"0123abcd"};
  launch.gang = {5};
  launch.arguments = {{1}, {2}, {uint64_t{1} << 63}};
  launch.results = {{4}};
  launch.donated = {0, 2};
  launch.client_launch_id = -4;
  launch.awaited = true;
  return launch;
}

std::vector<WorkerCommand> OneOfEach() {
  return {SetPeers{{{kD0.worker, "host", {"tcp:1.2.3.4:5", "unix-abstract:x"}, "secret"}}},
          DefineGang{{5}, {kD0, kD3, {kD3.worker, 4}, {kD3.worker, 5}, {kD3.worker, 1}, kD0}},
          DropGang{{5}},
          LoadProgram{{"ab"}, "jit_f", Bytes(std::string("\0native\xff", 8)), 2, 1},
          UnloadProgram{{"ab"}},
          SomeLaunch(),
          CancelLaunch{{2, 99}, CauseWithPayload()},
          SomePut(),
          StreamChunk{{9}, Bytes("hello"), true, 2, absl::OkStatus()},
          BindArrays{{1}, {{{2}, {3}, kD3}}},
          PutError{{{1}, {2}}, {kD0}, CauseWithPayload()},
          SomeTransfer(),
          ReadShard{{8}, {{1}, {2}}, kD0, std::vector<int64_t>{}},
          AwaitReady{{8}, {1}, {{2}, {3}}},
          DeleteArrays{{1}, {{2}, {3}}},
          EndSession{{1}},
          ReturnHostCall{{3}, absl::OkStatus(), Bytes("results")},
          AskMemory{{3}},
          ReportTimes{true},
          AskActivity{{4}}};
}

TEST(WorkerCodec, EveryCommandComesBackByteForByte) {
  const std::vector<WorkerCommand> commands = OneOfEach();
  ASSERT_EQ(commands.size(), std::variant_size_v<WorkerCommand>);
  for (size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ(commands[i].index(), i);
    absl::StatusOr<WorkerCommand> decoded = DecodeCommand(Body(commands[i]));
    ASSERT_TRUE(decoded.ok()) << i << ": " << decoded.status();
    EXPECT_EQ(decoded->index(), i);
    EXPECT_EQ(Body(*decoded), Body(commands[i])) << i;
  }
}

TEST(WorkerCodec, FieldsAreNotMixedUp) {
  const Launch launch = RoundTrip(SomeLaunch());
  EXPECT_EQ(launch.id, (LaunchId{2, 99}));
  EXPECT_EQ(launch.session, SessionId{11});
  EXPECT_EQ(launch.program.hash, "0123abcd");
  EXPECT_EQ(launch.gang, GangId{5});
  EXPECT_EQ(launch.arguments, SomeLaunch().arguments);
  EXPECT_EQ(launch.results, SomeLaunch().results);
  EXPECT_EQ(launch.donated, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(launch.client_launch_id, -4);
  EXPECT_TRUE(launch.awaited);

  const PutArray put = RoundTrip(SomePut());
  EXPECT_EQ(put.array, SomePut().array);
  EXPECT_EQ(put.devices, SomePut().devices);
  EXPECT_EQ(put.shard_shape, SomePut().shard_shape);
  EXPECT_EQ(put.byte_strides, SomePut().byte_strides);
  EXPECT_EQ(put.layout, SomePut().layout);
  EXPECT_EQ(put.stream, StreamId{9});
  EXPECT_EQ(put.stream_bytes, 12u);

  const TransferArray transfer = RoundTrip(SomeTransfer());
  EXPECT_EQ(transfer.from, ArrayId{6});
  EXPECT_EQ(transfer.to, ArrayId{7});
  ASSERT_EQ(transfer.pieces.size(), 2u);
  EXPECT_EQ(transfer.pieces[1].source_box, (Box{{8, 1}, {4, 4}}));
  EXPECT_EQ(transfer.pieces[1].destination_box, (Box{{0, 2}, {4, 4}}));
  EXPECT_EQ(transfer.pieces[1].source, kD0);
  EXPECT_EQ(transfer.destinations[0].shard_shape, (Shape{DType::kF32, {4, 6}}));

  const LoadProgram load = RoundTrip(LoadProgram{{"ab"}, "jit_f", Bytes("native"), 2, 1, true});
  EXPECT_TRUE(load.calls_client);
  EXPECT_EQ(*load.executable, "native");
  EXPECT_EQ(load.num_parameters, 2u);
  EXPECT_EQ(load.num_results, 1u);
}

TEST(WorkerCodec, ScalarStridesAreNotAbsentStrides) {
  EXPECT_TRUE(RoundTrip(ReadShard{{8}, {{1}, {2}}, kD0, std::vector<int64_t>{}}).byte_strides.has_value());
  EXPECT_FALSE(RoundTrip(ReadShard{{8}, {{1}, {2}}, kD0, std::nullopt}).byte_strides.has_value());
}

TEST(WorkerCodec, StatusesKeepTheirPayloads) {
  EXPECT_EQ(RoundTrip(CancelLaunch{{1, 2}, CauseWithPayload()}).cause, CauseWithPayload());
  EXPECT_EQ(EventRoundTrip(Ready{{4}, CauseWithPayload()}).status, CauseWithPayload());
  const LaunchFailed failed = EventRoundTrip(LaunchFailed{{1, 2}, {3}, CauseWithPayload(), false});
  EXPECT_EQ(failed.cause, CauseWithPayload());
  EXPECT_EQ(failed.launch, (LaunchId{1, 2}));
  EXPECT_FALSE(failed.origin);
}

TEST(WorkerCodec, EqualStatusesAreEqualBytes) {
  std::vector<std::unique_ptr<CancelLaunch>> commands;  // a status' order of payloads depends on its address
  for (int i = 0; i < 64; ++i) {
    commands.push_back(std::make_unique<CancelLaunch>(CancelLaunch{{1, 2}, absl::InternalError("why")}));
    for (const char* type : {"a", "b", "c"}) commands.back()->cause.SetPayload(type, absl::Cord("value"));
  }
  const std::string bytes = EncodeCommandHead(*commands[0]);
  for (const auto& command : commands) EXPECT_EQ(EncodeCommandHead(*command), bytes);
}

TEST(WorkerCodec, Events) {
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

TEST(WorkerCodec, HostCalls) {
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

  const ReturnHostCall failed = RoundTrip(ReturnHostCall{{3}, CauseWithPayload(), nullptr});
  EXPECT_EQ(failed.status, CauseWithPayload());
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

TEST(WorkerCodec, TransferTimesComeBack) {
  const TransferTimes back = EventRoundTrip(TransferTimes{{{{7, 8}, kD0.worker, 9, 10, 11}}});
  ASSERT_EQ(back.spans.size(), 1u);
  EXPECT_EQ(back.spans[0].transfer, (LaunchId{7, 8}));
  EXPECT_EQ(back.spans[0].to, kD0.worker);
  EXPECT_EQ(back.spans[0].bytes, 9u);
  EXPECT_EQ(back.spans[0].begin_ns, 10);
  EXPECT_EQ(back.spans[0].end_ns, 11);
  EXPECT_FALSE(DecodeEvent(Body(WorkerEvent(TransferTimes{{{{7, 8}, kD0.worker, 9, 11, 10}}}))).ok());
}

TEST(WorkerCodec, ActivityComesBack) {
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

TEST(WorkerCodec, RefusesWhatTheInsideReliesOn) {
  auto refused = [](const WorkerCommand& command) {
    return DecodeCommand(Body(command)).status().code() == absl::StatusCode::kInvalidArgument;
  };
  Launch launch = SomeLaunch();
  launch.donated = {3};
  EXPECT_TRUE(refused(launch));
  EXPECT_TRUE(refused(DefineGang{{5}, {}}));
  EXPECT_TRUE(refused(DefineGang{{5}, {{WorkerId{1}, -1}}}));
  // A few bytes don't make the other side hold gigabytes.
  for (int32_t count : {0, -1, 1 << 29, INT32_MAX}) {
    ::switchtower::worker::WorkerCommand gang;
    auto* run = gang.mutable_define_gang()->add_runs();
    run->set_worker(1);
    run->set_count(count);
    EXPECT_FALSE(DecodeCommand(worker_wire::FrameHead(gang)).ok()) << count;
  }
  EXPECT_TRUE(refused(CancelLaunch{{1, 2}, absl::OkStatus()}));
  EXPECT_TRUE(refused(PutError{{{1}, {2}}, {kD0}, absl::OkStatus()}));

  PutArray put = SomePut();
  put.shard_shape.dtype = static_cast<DType>(77);
  EXPECT_TRUE(refused(put));
  put = SomePut();
  put.shard_shape.dims = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_TRUE(refused(put));
  put = SomePut();
  put.layout = Layout{{0, 0}};
  EXPECT_TRUE(refused(put));
  put = SomePut();
  put.byte_strides = std::vector<int64_t>{2};
  EXPECT_TRUE(refused(put));

  TransferArray transfer = SomeTransfer();
  transfer.pieces[0].destination_box.start = {0, 5};
  EXPECT_TRUE(refused(transfer));
  transfer = SomeTransfer();
  transfer.pieces[0].destination_box.start = {INT64_MAX, 0};
  EXPECT_TRUE(refused(transfer));
  transfer = SomeTransfer();
  transfer.pieces[0].destination = kD0;
  EXPECT_TRUE(refused(transfer));
}

// Broken bytes are refused or give some valid value; what is accepted can be encoded again.
TEST(WorkerCodec, BrokenBytesNeverCrash) {
  std::mt19937 random(20240229);
  int accepted = 0;
  std::vector<std::string> seeds;
  for (const WorkerCommand& command : OneOfEach()) seeds.push_back(Body(command));
  seeds.push_back(Body(WorkerEvent(SomeActivity())));
  seeds.push_back(Body(WorkerEvent(LaunchFailed{{1, 2}, {3}, CauseWithPayload(), false})));
  for (const std::string& seed : seeds) {
    for (size_t length = 0; length < seed.size(); ++length) (void)DecodeCommand(seed.substr(0, length));
    for (int i = 0; i < 2000; ++i) {
      std::string body = seed;
      const int changes = 1 + static_cast<int>(random() % 4);
      for (int c = 0; c < changes; ++c) body[random() % body.size()] = static_cast<char>(random());
      absl::StatusOr<WorkerCommand> decoded = DecodeCommand(body);
      if (decoded.ok()) {
        ++accepted;
        EXPECT_TRUE(DecodeCommand(Body(*decoded)).ok());
      } else {
        EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
      }
      (void)DecodeEvent(body);
      (void)DecodeHello(body);
    }
  }
  EXPECT_GT(accepted, 0);
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

// With nothing in it each is still of its kind: one of no kind would cost its sender the connection.
template <typename Variant, size_t... kKinds>
std::vector<Variant> OneOfEach(std::index_sequence<kKinds...>) {
  return {Variant(std::in_place_index<kKinds>)...};
}

TEST(WorkerCodec, EmptyOnesKeepTheirKind) {
  for (const WorkerEvent& event :
       OneOfEach<WorkerEvent>(std::make_index_sequence<std::variant_size_v<WorkerEvent>>())) {
    const absl::StatusOr<WorkerEvent> back = DecodeEvent(Body(event));
    EXPECT_EQ(back.status().message().find("of no known kind"), std::string::npos) << event.index();
    if (back.ok()) {
      EXPECT_EQ(back->index(), event.index());
    }
  }
  for (const WorkerCommand& command :
       OneOfEach<WorkerCommand>(std::make_index_sequence<std::variant_size_v<WorkerCommand>>())) {
    const absl::StatusOr<WorkerCommand> back = DecodeCommand(Body(command));
    EXPECT_EQ(back.status().message().find("of no known kind"), std::string::npos) << command.index();
    if (back.ok()) {
      EXPECT_EQ(back->index(), command.index());
    }
  }
}

// Ranks travel as runs of devices, whatever their order.
TEST(WorkerCodec, GangsKeepTheOrderOfTheirRanks) {
  const WorkerId a{1}, b{2};
  const std::vector<PhysicalDevice> ranks = {{a, 0}, {a, 1}, {a, 2}, {b, 3}, {b, 2}, {a, 3}, {b, 0}, {b, 1}};
  EXPECT_EQ(RoundTrip(DefineGang{{5}, ranks}).ranks, ranks);
  std::vector<PhysicalDevice> many;
  for (uint64_t worker = 1; worker <= 100; ++worker) {
    for (int32_t ordinal = 0; ordinal < 8; ++ordinal) many.push_back({WorkerId{worker}, ordinal});
  }
  EXPECT_EQ(RoundTrip(DefineGang{{6}, many}).ranks, many);
  EXPECT_LT(Body(WorkerCommand(DefineGang{{6}, many})).size(), 100 * 16u);
}

}  // namespace
}  // namespace switchtower
