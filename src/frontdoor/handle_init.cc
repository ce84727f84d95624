// InitRequest: the session's devices and memories, as the client will know them.
#include <string>

#include <fmt/format.h>

#include "absl/strings/ascii.h"
#include "frontdoor/handlers.h"
#include "wire/ifrt/attributes.h"

namespace switchtower {
namespace {

using xla::ifrt::proxy::InitResponse;

void FillAttributes(const VirtualDevice& device, xla::ifrt::AttributeMapProto* attributes) {
  SetAttribute("slice_index", int64_t{device.slice_index}, attributes);
  SetAttribute("virtual_task_index", int64_t{device.task_index}, attributes);
  SetAttribute("coords", device.coords, attributes);
  SetAttribute("core_on_chip", int64_t{device.core_on_chip}, attributes);
  SetAttribute("num_cores", int64_t{device.num_cores}, attributes);
  SetAttribute("colocation_id", int64_t{device.colocation_id}, attributes);
}

void FillDevice(const SessionDescription& session, const VirtualDevice& device, int protocol,
                const std::string& agent_token, InitResponse::Device* proto) {
  proto->set_id(static_cast<int32_t>(device.id.value));
  proto->set_local_device_id(static_cast<int32_t>(device.id.value));
  proto->set_local_hardware_id(device.ordinal_on_host);
  proto->set_device_kind(session.device_kind);
  if (protocol >= kProtocolDevicePlatformName) proto->set_platform_name(session.platform_name);
  // str() and repr() in Python, as of a local device: "cpu:0", "CpuDevice(id=0)".
  std::string name = session.platform_name;
  proto->set_debug_string(fmt::format("{}:{}", name, device.id.value));
  if (!name.empty()) name[0] = absl::ascii_toupper(name[0]);
  proto->set_to_string(fmt::format("{}Device(id={})", name, device.id.value));
  FillAttributes(device, proto->mutable_attributes());
  // The client package attaches with it (proto/switchtower/client_agent.proto).
  SetAttribute("switchtower_agent", agent_token, proto->mutable_attributes());
}

void FillMemory(const MemoryDescription& memory, InitResponse::Memory* proto) {
  proto->set_id(memory.id);
  proto->set_memory_space_kind(memory.kind);
  proto->set_kind_id(memory.kind_id);
  proto->add_device_ids(static_cast<int32_t>(memory.device.value));
  proto->set_debug_string(fmt::format("{} of device {}", memory.kind, memory.device.value));
  proto->set_to_string(fmt::format("Memory(id={}, kind={})", memory.id, memory.kind));
}

}  // namespace

absl::Status HandleInit(SessionState& state, const RequestContext& context,
                        const xla::ifrt::proxy::InitRequest& request, InitResponse* response) {
  const SessionDescription& session = state.session.description();
  // The client names its host buffers by it, and nothing else.
  response->set_session_id(state.buffers->key());
  response->set_platform_name(session.platform_name);
  response->set_platform_version(session.platform_version);
  response->set_platform_id(session.platform_id);
  // One controller owns all devices, so to the client all are local to one process.
  response->set_process_index(0);
  response->set_runtime_type("switchtower");
  absl::flat_hash_map<uint64_t, InitResponse::Device*> devices;
  for (const VirtualDevice& device : session.devices) {
    InitResponse::Device* proto = response->add_all_devices();
    FillDevice(session, device, state.version.protocol, state.agent_token, proto);
    response->add_primary_device_ids(proto->id());
    response->add_addressable_device_ids(proto->id());
    devices[device.id.value] = proto;
  }
  for (const MemoryDescription& memory : session.memories) {
    FillMemory(memory, response->add_memories());
    auto device = devices.find(memory.device.value);
    if (device == devices.end()) continue;
    device->second->add_memory_ids(memory.id);
    if (!session.memory_kinds.empty() && memory.kind == session.memory_kinds[0]) {
      device->second->set_default_memory_id(memory.id);
    }
  }
  // What jax asks a backend: whether programs may keep Shardy's dialect (jax.export), and whether its own cache may
  // store executables, which stay here.
  SetBoolAttribute("serialize_with_sdy", true, response->mutable_client_attributes());
  SetBoolAttribute("supports_executable_serialization", false, response->mutable_client_attributes());
  for (const auto& [name, value] : session.attributes) {
    SetAttribute(name, value, response->mutable_client_attributes());
  }
  return absl::OkStatus();
}

}  // namespace switchtower
