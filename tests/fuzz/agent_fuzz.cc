// What a client's agent sends, frame by frame, while the session's programs call it: one byte of the input is the kind
// of a frame, two are its length, then comes the body.
//
// Each call is answered exactly once, whatever the agent says (D-1).
#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.h"
#include "frontdoor/agent_desk.h"
#include "google/protobuf/stubs/logging.h"

namespace switchtower::fuzz {
namespace {

class NoLink : public AgentLink {
 public:
  void Send(AgentFrame frame) override { CHECK(frame.body.size() >= 4); }
  void Close(const absl::Status&) override {}
};

void Take(AgentDesk& desk, AgentMessage message) {
  if (auto* answer = std::get_if<AgentReturn>(&message)) desk.Returned(std::move(*answer));
  if (auto* retire = std::get_if<AgentRetire>(&message)) desk.Retire(retire->callbacks);
  if (std::holds_alternative<AgentAskMemory>(message)) desk.ReadMemory([](std::vector<DeviceMemory>) {});
}

void Run(std::string_view input) {
  auto desk = std::make_shared<AgentDesk>(SessionId{1}, [](Callback<std::vector<DeviceMemory>> done) { done({}); });
  CHECK(desk->Attach(std::make_shared<NoLink>()).ok());
  const std::shared_ptr<const void> held = desk->Hold({1, 2});
  std::vector<int> answers(3, 0);
  for (size_t i = 0; i < answers.size(); ++i) {
    ClientCall call;
    call.callback = 1 + i % 2;
    call.results = {Shape{DType::kS32, {2}}};
    call.data = std::make_shared<const std::string>("operands");
    call.answer = [&answers, i](const auto&) { ++answers[i]; };
    desk->OnCall(std::move(call));
  }
  while (input.size() >= 3) {
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(input[i])); };
    const uint32_t kind = static_cast<uint32_t>(byte(0));
    const size_t length = byte(1) | byte(2) << 8;
    auto message = DecodeAgentMessage(kind, input.substr(3, length));
    if (message.ok()) Take(*desk, *std::move(message));
    input.remove_prefix(std::min(input.size(), 3 + length));
  }
  desk->Close(absl::CancelledError("the session ended"));
  for (int count : answers) CHECK(count == 1);
}

}  // namespace
}  // namespace switchtower::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer quiet;
  switchtower::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
