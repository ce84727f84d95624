// What the proxy and a client's agent say to each other: values <-> frames of proto/switchtower/client_agent.proto.
//
// Place:    wire/agent; the door sees only these values.
// Threads:  pure functions.
// Errors:   InvalidArgument for any bytes that aren't a message of an agent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/net/payload.h"
#include "controller/api/session.h"

namespace switchtower {

inline constexpr uint32_t kAgentProtocolVersion = 1;

// ---- from the agent
struct AgentHello {
  uint32_t version = 0;
  std::string token;
};
struct AgentReturn {
  uint64_t call = 0;
  std::string error;  // of the function; empty: none
  std::shared_ptr<const std::string> data;
};
struct AgentRetire {
  std::vector<uint64_t> callbacks;
};
struct AgentAskMemory {
  uint64_t request = 0;
};
using AgentMessage = std::variant<AgentHello, AgentReturn, AgentRetire, AgentAskMemory>;

absl::StatusOr<AgentMessage> DecodeAgentMessage(uint32_t frame_type, std::string_view body);

// ---- to the agent
struct AgentFrame {
  uint32_t type = 0;
  Payload body;
};
AgentFrame WelcomeFrame(const absl::Status& status);
AgentFrame CallFrame(uint64_t number, const ClientCall& call);
AgentFrame ReleasedFrame(const std::vector<uint64_t>& callbacks);
AgentFrame MemoryFrame(uint64_t request, const std::vector<DeviceMemory>& devices);

}  // namespace switchtower
