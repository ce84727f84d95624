// Making a client and reading what its devices are.
#include <string.h>

#include "base/status_macros.h"
#include "pjrt/call.h"
#include "pjrt/client.h"

namespace switchtower::pjrt {
namespace {

template <typename Args>
abi::PJRT_Error* FailCallback(const Args* args, const absl::Status& status) {
  const std::string message(status.message());
  return (*args->callback_error)(static_cast<int>(status.code()), message.data(), message.size());
}

// Fills the answer of both kinds of get. The plug-in frees the value with the deleter that we give it.
template <typename Args>
abi::PJRT_Error* AnswerGet(Args* args, int timeout_ms) {
  auto* store = static_cast<KeyValueStore*>(args->user_arg);
  auto value = store->Get(std::string(args->key, args->key_size), timeout_ms);
  if (!value.ok()) return FailCallback(args, value.status());
  args->value = new char[value->size() + 1];
  memcpy(args->value, value->c_str(), value->size() + 1);
  args->value_size = value->size();
  args->value_deleter_callback = [](char* bytes) { delete[] bytes; };
  return nullptr;
}

abi::PJRT_Error* Get(abi::PJRT_KeyValueGetCallback_Args* args) { return AnswerGet(args, args->timeout_in_ms); }

abi::PJRT_Error* TryGet(abi::PJRT_KeyValueTryGetCallback_Args* args) { return AnswerGet(args, 0); }

abi::PJRT_Error* Put(abi::PJRT_KeyValuePutCallback_Args* args) {
  auto* store = static_cast<KeyValueStore*>(args->user_arg);
  const absl::Status status =
      store->Put(std::string(args->key, args->key_size), std::string(args->value, args->value_size));
  return status.ok() ? nullptr : FailCallback(args, status);
}

absl::StatusOr<std::unique_ptr<Memory>> ReadMemory(const abi::PJRT_Api* api, abi::PJRT_Memory* handle) {
  auto memory = std::make_unique<Memory>();
  memory->handle = handle;
  auto id = MakeArgs<abi::PJRT_Memory_Id_Args>();
  id.memory = handle;
  RETURN_IF_ERROR(Call(api, api->PJRT_Memory_Id, id));
  memory->id = id.id;
  auto kind = MakeArgs<abi::PJRT_Memory_Kind_Args>();
  kind.memory = handle;
  RETURN_IF_ERROR(Call(api, api->PJRT_Memory_Kind, kind));
  memory->kind = MakeString(kind.kind, kind.kind_size);
  auto text = MakeArgs<abi::PJRT_Memory_DebugString_Args>();
  text.memory = handle;
  RETURN_IF_ERROR(Call(api, api->PJRT_Memory_DebugString, text));
  memory->debug_string = MakeString(text.debug_string, text.debug_string_size);
  return memory;
}

absl::Status ReadDeviceDescription(const abi::PJRT_Api* api, Device& device) {
  auto get = MakeArgs<abi::PJRT_Device_GetDescription_Args>();
  get.device = device.handle;
  RETURN_IF_ERROR(Call(api, api->PJRT_Device_GetDescription, get));

  auto id = MakeArgs<abi::PJRT_DeviceDescription_Id_Args>();
  id.device_description = get.device_description;
  RETURN_IF_ERROR(Call(api, api->PJRT_DeviceDescription_Id, id));
  device.id = id.id;
  auto process = MakeArgs<abi::PJRT_DeviceDescription_ProcessIndex_Args>();
  process.device_description = get.device_description;
  RETURN_IF_ERROR(Call(api, api->PJRT_DeviceDescription_ProcessIndex, process));
  device.process_index = process.process_index;
  auto kind = MakeArgs<abi::PJRT_DeviceDescription_Kind_Args>();
  kind.device_description = get.device_description;
  RETURN_IF_ERROR(Call(api, api->PJRT_DeviceDescription_Kind, kind));
  device.kind = MakeString(kind.device_kind, kind.device_kind_size);
  auto debug = MakeArgs<abi::PJRT_DeviceDescription_DebugString_Args>();
  debug.device_description = get.device_description;
  RETURN_IF_ERROR(Call(api, api->PJRT_DeviceDescription_DebugString, debug));
  device.debug_string = MakeString(debug.debug_string, debug.debug_string_size);
  auto text = MakeArgs<abi::PJRT_DeviceDescription_ToString_Args>();
  text.device_description = get.device_description;
  RETURN_IF_ERROR(Call(api, api->PJRT_DeviceDescription_ToString, text));
  device.to_string = MakeString(text.to_string, text.to_string_size);
  auto attributes = MakeArgs<abi::PJRT_DeviceDescription_Attributes_Args>();
  attributes.device_description = get.device_description;
  RETURN_IF_ERROR(Call(api, api->PJRT_DeviceDescription_Attributes, attributes));
  device.attributes = ReadNamedValues(attributes.attributes, attributes.num_attributes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Client>> Client::Create(Plugin& plugin, const NamedValues& options,
                                                       std::shared_ptr<KeyValueStore> store) {
  const std::vector<abi::PJRT_NamedValue> values = WriteNamedValues(options);
  auto args = MakeArgs<abi::PJRT_Client_Create_Args>();
  args.create_options = values.data();
  args.num_options = values.size();
  if (store != nullptr) {
    args.kv_get_callback = &Get;
    args.kv_put_callback = &Put;
    args.kv_try_get_callback = &TryGet;
    args.kv_get_user_arg = args.kv_put_user_arg = args.kv_try_get_user_arg = store.get();
  }
  RETURN_IF_ERROR(Call(plugin.api(), plugin.api()->PJRT_Client_Create, args));
  std::shared_ptr<Client> client(new Client(plugin, args.client, std::move(store)));
  RETURN_IF_ERROR(client->ReadDescription());
  return client;
}

absl::Status Client::ReadMemories() {
  auto memories = MakeArgs<abi::PJRT_Client_AddressableMemories_Args>();
  memories.client = client_;
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Client_AddressableMemories, memories));
  for (size_t i = 0; i < memories.num_addressable_memories; ++i) {
    ASSIGN_OR_RETURN(auto memory, ReadMemory(api(), memories.addressable_memories[i]));
    memories_.push_back(std::move(memory));
  }
  return absl::OkStatus();
}

absl::Status Client::ReadDescription() {
  auto name = MakeArgs<abi::PJRT_Client_PlatformName_Args>();
  name.client = client_;
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Client_PlatformName, name));
  platform_name_ = MakeString(name.platform_name, name.platform_name_size);
  auto version = MakeArgs<abi::PJRT_Client_PlatformVersion_Args>();
  version.client = client_;
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Client_PlatformVersion, version));
  platform_version_ = MakeString(version.platform_version, version.platform_version_size);
  RETURN_IF_ERROR(ReadMemories());

  auto devices = MakeArgs<abi::PJRT_Client_AddressableDevices_Args>();
  devices.client = client_;
  RETURN_IF_ERROR(Call(api(), api()->PJRT_Client_AddressableDevices, devices));
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    Device device;
    device.handle = devices.addressable_devices[i];
    RETURN_IF_ERROR(ReadDeviceDescription(api(), device));
    auto hardware = MakeArgs<abi::PJRT_Device_LocalHardwareId_Args>();
    hardware.device = device.handle;
    RETURN_IF_ERROR(Call(api(), api()->PJRT_Device_LocalHardwareId, hardware));
    device.local_hardware_id = hardware.local_hardware_id;
    auto memories = MakeArgs<abi::PJRT_Device_AddressableMemories_Args>();
    memories.device = device.handle;
    RETURN_IF_ERROR(Call(api(), api()->PJRT_Device_AddressableMemories, memories));
    for (size_t m = 0; m < memories.num_memories; ++m) {
      if (const Memory* memory = FindMemory(memories.memories[m])) device.memories.push_back(memory);
    }
    auto memory = MakeArgs<abi::PJRT_Device_DefaultMemory_Args>();
    memory.device = device.handle;
    RETURN_IF_ERROR(Call(api(), api()->PJRT_Device_DefaultMemory, memory));
    device.default_memory = FindMemory(memory.memory);
    devices_.push_back(std::move(device));
  }
  return absl::OkStatus();
}

}  // namespace switchtower::pjrt
