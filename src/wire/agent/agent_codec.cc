#include "wire/agent/agent_codec.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "switchtower/client_agent.pb.h"

namespace switchtower {
namespace {

namespace pb = ::switchtower::agent;

constexpr size_t kLengthBytes = 4;
// Heads are small; what is large is payload.
constexpr size_t kHeadBytesMax = 1 << 20;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("message of a client's agent: " + what); }

AgentFrame Frame(pb::Kind kind, const google::protobuf::Message& message) {
  std::string json;
  // Only text that isn't UTF-8 could make this fail, and we put none in.
  (void)google::protobuf::util::MessageToJsonString(message, &json);
  std::string head(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) head[i] = static_cast<char>((json.size() >> (8 * i)) & 0xff);
  head += json;
  return AgentFrame{static_cast<uint32_t>(kind), Payload(std::move(head))};
}

absl::Status Cut(std::string_view body, google::protobuf::Message* message, std::string_view* payload) {
  if (body.size() < kLengthBytes) return Bad("shorter than its length");
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) size |= size_t{static_cast<uint8_t>(body[i])} << (8 * i);
  body.remove_prefix(kLengthBytes);
  if (size > body.size() || size > kHeadBytesMax) return Bad("a head longer than possible");
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(google::protobuf::StringPiece(body.data(), size), message, options);
  if (!parsed.ok()) return Bad("its head can't be read");
  *payload = body.substr(size);
  return absl::OkStatus();
}

void ToProto(const Shape& shape, pb::Value* out) {
  out->set_dtype(static_cast<int32_t>(shape.dtype));
  out->mutable_dims()->Add(shape.dims.begin(), shape.dims.end());
}

// Text from elsewhere for a JSON string: what isn't plain ASCII is no loss in an error message.
std::string Plain(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

}  // namespace

absl::StatusOr<AgentMessage> DecodeAgentMessage(uint32_t frame_type, std::string_view body) {
  std::string_view payload;
  switch (frame_type) {
    case pb::HELLO: {
      pb::Hello in;
      RETURN_IF_ERROR(Cut(body, &in, &payload));
      return AgentHello{in.version(), in.token()};
    }
    case pb::RETURN: {
      pb::Return in;
      RETURN_IF_ERROR(Cut(body, &in, &payload));
      return AgentReturn{in.call(), in.error(), std::make_shared<const std::string>(payload)};
    }
    case pb::RETIRE: {
      pb::Retire in;
      RETURN_IF_ERROR(Cut(body, &in, &payload));
      return AgentRetire{{in.callbacks().begin(), in.callbacks().end()}};
    }
    case pb::ASK_MEMORY: {
      pb::AskMemory in;
      RETURN_IF_ERROR(Cut(body, &in, &payload));
      return AgentAskMemory{in.request()};
    }
    default:
      return Bad(fmt::format("of no known kind, {}", frame_type));
  }
}

AgentFrame WelcomeFrame(const absl::Status& status) {
  pb::Welcome out;
  if (!status.ok()) out.set_error(Plain(std::string(status.message())));
  return Frame(pb::WELCOME, out);
}

AgentFrame CallFrame(uint64_t number, const ClientCall& call) {
  pb::Call out;
  out.set_call(number);
  out.set_callback(call.callback);
  out.set_device(static_cast<int32_t>(call.device.value));
  for (const Shape& shape : call.operands) ToProto(shape, out.add_operands());
  for (const Shape& shape : call.results) ToProto(shape, out.add_results());
  AgentFrame frame = Frame(pb::CALL, out);
  if (call.data != nullptr) frame.body.Append(call.data);
  return frame;
}

AgentFrame ReleasedFrame(const std::vector<uint64_t>& callbacks) {
  pb::Released out;
  out.mutable_callbacks()->Add(callbacks.begin(), callbacks.end());
  return Frame(pb::RELEASED, out);
}

AgentFrame MemoryFrame(uint64_t request, const std::vector<DeviceMemory>& devices) {
  pb::Memory out;
  out.set_request(request);
  for (const DeviceMemory& memory : devices) {
    pb::Memory::Device* device = out.add_devices();
    device->set_device(static_cast<int32_t>(memory.device.value));
    device->set_bytes_in_use(memory.bytes_in_use);
    device->set_peak_bytes_in_use(memory.peak_bytes_in_use);
    device->set_bytes_limit(memory.bytes_limit);
  }
  return Frame(pb::MEMORY, out);
}

}  // namespace switchtower
