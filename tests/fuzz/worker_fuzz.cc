// What a controller sends to a worker, as bytes: the decoder, and behind it a worker on the fake engine. What another
// worker says in between.
//
// What decodes is encoded to what decodes to the same again. The worker takes every command that its decoder lets
// pass, and every message of its peer, in any order, and then answers.
#include <future>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"
#include "transport/wire.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"
#include "worker/agent/testing_worker.h"
#include "worker/exec/outbound_transfer.h"

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

void CheckEncoding(const WorkerEvent& event) {
  const std::string head = EncodeEventHead(event);
  const auto payload = EventPayload(event);
  const auto again = DecodeEvent(payload == nullptr ? head : head + *payload);
  CHECK(again.ok());
  CHECK(EncodeEventHead(*again) == head);
}

// Worker 2 beside the cluster's worker 1.
class Peer {
 public:
  explicit Peer(TestCluster& cluster) : cluster_(cluster), fabric_(cluster.network().NewEndpoint()) {
    fabric_->Start(kId);
    fabric_->SetPeers({{cluster.node(0).id, {{"in-process"}, "in-process", "secret"}}});
    SetPeers command;
    for (WorkerId id : {cluster.node(0).id, kId}) {
      command.peers.push_back({id, "in-process", {"in-process"}, "secret"});
    }
    cluster.controller(0).Send(command);
  }

  void Say(const WorkerCommandsInput::PeerMessage& message) {
    const LaunchId transfer{message.transfer().epoch(), message.transfer().number()};
    fabric_->Send(cluster_.node(0).id,
                  TransferMessage{transfer, message.ordinal(), message.piece(), message.is_error()}.ToHeader(),
                  Payload(message.body()), nullptr);
    AwaitTaken();
  }
  void Die() {
    fabric_->Stop();
    AwaitTaken();
  }

 private:
  static constexpr WorkerId kId{2};

  // Worker 1 takes its messages in order, and tells that the last one was sent after it took it, if that is its own.
  void AwaitTaken() {
    std::promise<void> taken;
    cluster_.node(0).fabric->Send(cluster_.node(0).id, TransferMessage{}.ToHeader(), Payload(),
                                  [&taken](absl::Status) { taken.set_value(); });
    taken.get_future().get();
  }

  TestCluster& cluster_;
  const std::unique_ptr<Fabric> fabric_;
};

void Run(const WorkerCommandsInput& input) {
  static const bool quiet = (InitLog("fuzz", LogLevel::kError, ""), true);
  (void)quiet;
  for (const auto& said : input.events()) {
    if (const auto event = DecodeEvent(worker_wire::FrameHead(said.event()) + said.payload()); event.ok()) {
      CheckEncoding(*event);
    }
  }
  TestCluster cluster(1);
  Peer peer(cluster);
  cluster.node(0).engine.RegisterProgram("one", 1, {0},
                                         [](const FakeCall& call) -> absl::StatusOr<std::vector<FakeValue>> {
                                           if (call.arguments.empty())
                                             return absl::InvalidArgumentError("needs an argument");
                                           return std::vector<FakeValue>{call.arguments[0]};
                                         });
  for (int i = 0; i < input.commands_size() && i < kCommandsMax; ++i) {
    const WorkerCommandsInput::Command& step = input.commands(i);
    for (const auto& message : step.peer_messages()) peer.Say(message);
    if (step.peer_dies()) peer.Die();
    const auto command = DecodeCommand(worker_wire::FrameHead(step.command()) + step.payload());
    if (!command.ok()) continue;
    CheckEncoding(*command);
    if (!AsksForMuch(*command)) cluster.controller(0).Send(*command);
  }
  CHECK(cluster.controller(0).Await(SessionId{0}, {}).ok());
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
  switchtower::transport_wire::DecodeHello(bytes).IgnoreError();
  return switchtower::fuzz::RunOnMessage<switchtower::fuzz::WorkerCommandsInput>(data, size, switchtower::fuzz::Run);
}
