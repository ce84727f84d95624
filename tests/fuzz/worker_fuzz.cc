// What a controller sends to a worker, as bytes: the decoder, and behind it a worker on the fake engine.
//
// What decodes is encoded to what decodes to the same again. The worker takes every command that its decoder lets
// pass, in any order.
#include <string>

#include "base/check.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"
#include "worker/agent/testing_worker.h"

namespace switchtower::fuzz {
namespace {

constexpr int kCommandsMax = 64;
constexpr int64_t kShardBytesMax = 1 << 20;

// A controller asks only for arrays that were admitted, so memory is its affair.
bool AsksForMuch(const WorkerCommand& command) {
  const auto* transfer = std::get_if<TransferArray>(&command);
  if (transfer == nullptr) return false;
  for (const auto& destination : transfer->destinations) {
    if (destination.shard_shape.host_bytes() > kShardBytesMax) return true;
  }
  return false;
}

void CheckEncoding(const WorkerCommand& command) {
  const std::string head = EncodeCommandHead(command);
  const auto payload = CommandPayload(command);
  const auto again = DecodeCommand(payload == nullptr ? head : head + *payload);
  CHECK(again.ok());
  CHECK(EncodeCommandHead(*again) == head);
}

void Run(const WorkerCommandsInput& input) {
  TestCluster cluster(1);
  cluster.node(0).engine.RegisterProgram("one", 1, {0},
                                         [](const FakeCall& call) -> absl::StatusOr<std::vector<FakeValue>> {
                                           if (call.arguments.empty())
                                             return absl::InvalidArgumentError("needs an argument");
                                           return std::vector<FakeValue>{call.arguments[0]};
                                         });
  for (int i = 0; i < input.commands_size() && i < kCommandsMax; ++i) {
    const auto command =
        DecodeCommand(worker_wire::FrameHead(input.commands(i).command()) + input.commands(i).payload());
    if (!command.ok()) continue;
    CheckEncoding(*command);
    if (!AsksForMuch(*command)) cluster.controller(0).Send(*command);
  }
  cluster.Settle(0);
}

}  // namespace
}  // namespace switchtower::fuzz

std::unique_ptr<google::protobuf::Message> switchtower::fuzz::NewInput() {
  return std::make_unique<switchtower::fuzz::WorkerCommandsInput>();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // As a frame's body by itself, whose length field may lie.
  switchtower::DecodeCommand(bytes).IgnoreError();
  switchtower::DecodeEvent(bytes).IgnoreError();
  switchtower::DecodeHello(bytes).IgnoreError();
  switchtower::DecodeHelloReply(bytes).IgnoreError();
  return switchtower::fuzz::RunOnMessage<switchtower::fuzz::WorkerCommandsInput>(data, size, switchtower::fuzz::Run);
}
