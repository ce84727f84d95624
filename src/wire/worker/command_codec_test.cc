#include "wire/worker/worker_codec.h"

#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "switchtower/worker.pb.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/testing_codec.h"

namespace switchtower {
namespace {

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

TEST(CommandCodec, EveryCommandComesBackByteForByte) {
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

TEST(CommandCodec, FieldsAreNotMixedUp) {
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

TEST(CommandCodec, ScalarStridesAreNotAbsentStrides) {
  EXPECT_TRUE(RoundTrip(ReadShard{{8}, {{1}, {2}}, kD0, std::vector<int64_t>{}}).byte_strides.has_value());
  EXPECT_FALSE(RoundTrip(ReadShard{{8}, {{1}, {2}}, kD0, std::nullopt}).byte_strides.has_value());
}

TEST(CommandCodec, StatusesKeepTheirPayloads) {
  EXPECT_EQ(RoundTrip(CancelLaunch{{1, 2}, CauseWithPayload()}).cause, CauseWithPayload());
  EXPECT_EQ(RoundTrip(ReturnHostCall{{3}, CauseWithPayload(), nullptr}).status, CauseWithPayload());
}

TEST(CommandCodec, EqualStatusesAreEqualBytes) {
  std::vector<std::unique_ptr<CancelLaunch>> commands;  // a status' order of payloads depends on its address
  for (int i = 0; i < 64; ++i) {
    commands.push_back(std::make_unique<CancelLaunch>(CancelLaunch{{1, 2}, absl::InternalError("why")}));
    for (const char* type : {"a", "b", "c"}) commands.back()->cause.SetPayload(type, absl::Cord("value"));
  }
  const std::string bytes = EncodeCommandHead(*commands[0]);
  for (const auto& command : commands) EXPECT_EQ(EncodeCommandHead(*command), bytes);
}

TEST(CommandCodec, RefusesWhatTheInsideReliesOn) {
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

// Ranks travel as runs of devices, whatever their order.
TEST(CommandCodec, GangsKeepTheOrderOfTheirRanks) {
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

TEST(CommandCodec, EmptyOnesKeepTheirKind) {
  for (const WorkerCommand& command : EmptyOnes<WorkerCommand>()) {
    const absl::StatusOr<WorkerCommand> back = DecodeCommand(Body(command));
    EXPECT_EQ(back.status().message().find("of no known kind"), std::string::npos) << command.index();
    if (back.ok()) {
      EXPECT_EQ(back->index(), command.index());
    }
  }
}

// Broken bytes are refused or give some valid value; what is accepted can be encoded again.
TEST(CommandCodec, BrokenBytesNeverCrash) {
  std::mt19937 random(20240229);
  int accepted = 0, refused = 0;
  for (const WorkerCommand& command : OneOfEach()) {
    const std::string seed = Body(command);
    for (size_t length = 0; length < seed.size(); ++length) (void)DecodeCommand(seed.substr(0, length));
    for (int i = 0; i < 2000; ++i) {
      const std::string body = Broken(seed, random);
      absl::StatusOr<WorkerCommand> decoded = DecodeCommand(body);
      if (decoded.ok()) {
        ++accepted;
        EXPECT_TRUE(DecodeCommand(Body(*decoded)).ok());
      } else {
        ++refused;
        EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace switchtower
