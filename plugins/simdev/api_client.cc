// Entries for errors, events, clients, devices and memories.
#include <cstdlib>

#include "plugins/simdev/api.h"

namespace simdev {

using namespace switchtower::pjrt::abi;  // NOLINT: the ABI's own names

PJRT_Error* Error(int code, std::string message) { return new PJRT_Error{{code, std::move(message)}}; }
PJRT_Error* ToError(const Failure& failure) { return failure.code == 0 ? nullptr : new PJRT_Error{failure}; }

namespace {

int64_t EnvironmentNumber(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoll(text, nullptr, 10);
}

void ErrorDestroy(PJRT_Error_Destroy_Args* args) { delete args->error; }
void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->failure.message.data();
  args->message_size = args->error->failure.message.size();
}
PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->failure.code;
  return nullptr;
}
PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }
PJRT_Error* PluginAttributes(PJRT_Plugin_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}

PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}
PJRT_Error* EventIsReady(PJRT_Event_IsReady_Args* args) {
  args->is_ready = args->event->state->ready();
  return nullptr;
}
PJRT_Error* EventAwait(PJRT_Event_Await_Args* args) { return ToError(args->event->state->Await()); }
PJRT_Error* EventOnReady(PJRT_Event_OnReady_Args* args) {
  args->event->state->OnReady(
      [callback = args->callback, user = args->user_arg](const Failure& failure) { callback(ToError(failure), user); });
  return nullptr;
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  int64_t count = 1;
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    if (name == "device_count" || name == "cpu_device_count") count = option.int64_value;
  }
  if (count < 1 || count > 4096) return Error(kInvalidArgument, "simdev makes 1 to 4096 devices");
  auto client = std::make_unique<PJRT_Client>();
  for (int64_t i = 0; i < count; ++i) {
    auto device = std::make_unique<PJRT_DeviceDescription>();
    device->device = std::make_unique<Device>(static_cast<int>(i), EnvironmentNumber("SIMDEV_MEMORY_BYTES", 0),
                                              EnvironmentNumber("SIMDEV_TIME_SCALE", 100));
    for (const auto& memory : device->device->memories) {
      client->memories.push_back(std::make_unique<PJRT_Memory>(PJRT_Memory{memory.get()}));
      device->memories.push_back(client->memories.back().get());
      client->memory_list.push_back(client->memories.back().get());
    }
    client->device_list.push_back(device.get());
    client->devices.push_back(std::move(device));
  }
  args->client = client.release();
  return nullptr;
}
PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}
PJRT_Error* ClientPlatformName(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "simdev";
  args->platform_name_size = 6;
  return nullptr;
}
PJRT_Error* ClientPlatformVersion(PJRT_Client_PlatformVersion_Args* args) {
  args->platform_version = "simdev 1";
  args->platform_version_size = 8;
  return nullptr;
}
PJRT_Error* ClientDevices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->device_list.data();
  args->num_addressable_devices = args->client->device_list.size();
  return nullptr;
}
PJRT_Error* ClientMemories(PJRT_Client_AddressableMemories_Args* args) {
  args->addressable_memories = args->client->memory_list.data();
  args->num_addressable_memories = args->client->memory_list.size();
  return nullptr;
}

PJRT_Error* DescriptionId(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->device->id;
  return nullptr;
}
PJRT_Error* DescriptionProcess(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = 0;
  return nullptr;
}
PJRT_Error* DescriptionAttributes(PJRT_DeviceDescription_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}
PJRT_Error* DescriptionKind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "simdev";
  args->device_kind_size = 6;
  return nullptr;
}
PJRT_Error* DescriptionDebug(PJRT_DeviceDescription_DebugString_Args* args) {
  args->debug_string = args->device_description->device->debug.data();
  args->debug_string_size = args->device_description->device->debug.size();
  return nullptr;
}
PJRT_Error* DescriptionString(PJRT_DeviceDescription_ToString_Args* args) {
  args->to_string = args->device_description->device->debug.data();
  args->to_string_size = args->device_description->device->debug.size();
  return nullptr;
}
PJRT_Error* DeviceDescription(PJRT_Device_GetDescription_Args* args) {
  args->device_description = static_cast<PJRT_DeviceDescription*>(args->device);
  return nullptr;
}
PJRT_Error* DeviceHardwareId(PJRT_Device_LocalHardwareId_Args* args) {
  args->local_hardware_id = args->device->device->id;
  return nullptr;
}
PJRT_Error* DeviceMemories(PJRT_Device_AddressableMemories_Args* args) {
  args->memories = args->device->memories.data();
  args->num_memories = args->device->memories.size();
  return nullptr;
}
PJRT_Error* DeviceDefaultMemory(PJRT_Device_DefaultMemory_Args* args) {
  args->memory = args->device->memories[0];
  return nullptr;
}
PJRT_Error* DeviceMemoryStats(PJRT_Device_MemoryStats_Args* args) {
  Memory& memory = *args->device->device->memories[0];
  std::lock_guard lock(memory.mutex);
  args->bytes_in_use = memory.used;
  args->peak_bytes_in_use = memory.peak;
  args->peak_bytes_in_use_is_set = true;
  args->bytes_limit = memory.limit;
  args->bytes_limit_is_set = memory.limit > 0;
  return nullptr;
}
PJRT_Error* MemoryId(PJRT_Memory_Id_Args* args) {
  args->id = args->memory->memory->id;
  return nullptr;
}
PJRT_Error* MemoryKind(PJRT_Memory_Kind_Args* args) {
  args->kind = args->memory->memory->kind.data();
  args->kind_size = args->memory->memory->kind.size();
  return nullptr;
}
PJRT_Error* MemoryDebug(PJRT_Memory_DebugString_Args* args) {
  args->debug_string = args->memory->memory->debug.data();
  args->debug_string_size = args->memory->memory->debug.size();
  return nullptr;
}

}  // namespace

void AddClientEntries(PJRT_Api& api) {
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;
  api.PJRT_Plugin_Initialize = PluginInitialize;
  api.PJRT_Plugin_Attributes = PluginAttributes;
  api.PJRT_Event_Destroy = EventDestroy;
  api.PJRT_Event_IsReady = EventIsReady;
  api.PJRT_Event_Await = EventAwait;
  api.PJRT_Event_OnReady = EventOnReady;
  api.PJRT_Client_Create = ClientCreate;
  api.PJRT_Client_Destroy = ClientDestroy;
  api.PJRT_Client_PlatformName = ClientPlatformName;
  api.PJRT_Client_PlatformVersion = ClientPlatformVersion;
  api.PJRT_Client_AddressableDevices = ClientDevices;
  api.PJRT_Client_AddressableMemories = ClientMemories;
  api.PJRT_DeviceDescription_Id = DescriptionId;
  api.PJRT_DeviceDescription_ProcessIndex = DescriptionProcess;
  api.PJRT_DeviceDescription_Attributes = DescriptionAttributes;
  api.PJRT_DeviceDescription_Kind = DescriptionKind;
  api.PJRT_DeviceDescription_DebugString = DescriptionDebug;
  api.PJRT_DeviceDescription_ToString = DescriptionString;
  api.PJRT_Device_GetDescription = DeviceDescription;
  api.PJRT_Device_LocalHardwareId = DeviceHardwareId;
  api.PJRT_Device_AddressableMemories = DeviceMemories;
  api.PJRT_Device_DefaultMemory = DeviceDefaultMemory;
  api.PJRT_Device_MemoryStats = DeviceMemoryStats;
  api.PJRT_Memory_Id = MemoryId;
  api.PJRT_Memory_Kind = MemoryKind;
  api.PJRT_Memory_DebugString = MemoryDebug;
}

}  // namespace simdev
