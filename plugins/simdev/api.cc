// The PJRT C ABI of the simulated devices. Entries that Switchtower doesn't call are null.
#include <cstdlib>
#include <cstring>

#include "plugins/simdev/device.h"
#include "plugins/simdev/program.h"

using namespace switchtower::pjrt::abi;
using simdev::Failure;

// The opaque types of the ABI, as this plug-in fills them.
namespace switchtower::pjrt::abi {
struct PJRT_Error {
  Failure failure;
};
struct PJRT_Event {
  simdev::StatePtr state;
};
struct PJRT_Device {
  std::unique_ptr<simdev::Device> device;
  std::vector<PJRT_Memory*> memories;
};
struct PJRT_Memory {
  simdev::Memory* memory;
};
struct PJRT_DeviceDescription : PJRT_Device {};
struct PJRT_Client {
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_Device*> device_list;
  std::vector<std::unique_ptr<PJRT_Memory>> memories;
  std::vector<PJRT_Memory*> memory_list;
};
struct PJRT_Executable {
  std::shared_ptr<const simdev::Program> program;
  std::vector<PJRT_Buffer_Type> types;
  std::vector<int64_t> dims;
  std::vector<size_t> dim_sizes;
  std::vector<const char*> memory_kinds;
  std::vector<size_t> memory_kind_sizes;
};
struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  std::shared_ptr<const simdev::Program> program;
};
struct PJRT_ExecuteContext {};
struct PJRT_Buffer {
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::vector<int64_t> minor_to_major;
  std::mutex mutex;
  std::shared_ptr<simdev::Storage> storage;  // null: deleted or donated; guarded by mutex

  std::shared_ptr<simdev::Storage> Get() {
    std::lock_guard lock(mutex);
    return storage;
  }
  std::shared_ptr<simdev::Storage> Take() {
    std::lock_guard lock(mutex);
    return std::move(storage);
  }
};
}  // namespace switchtower::pjrt::abi

namespace {

constexpr int kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9, kAborted = 10;

PJRT_Error* Error(int code, std::string message) { return new PJRT_Error{{code, std::move(message)}}; }
PJRT_Error* ToError(const Failure& failure) { return failure.code == 0 ? nullptr : new PJRT_Error{failure}; }

int64_t EnvironmentNumber(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoll(text, nullptr, 10);
}

PJRT_Buffer* NewBuffer(PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer_Type type, std::vector<int64_t> dims,
                       std::shared_ptr<simdev::Storage> storage) {
  auto* buffer = new PJRT_Buffer{device, memory, type, std::move(dims), {}, {}, std::move(storage)};
  for (int64_t d = static_cast<int64_t>(buffer->dims.size()) - 1; d >= 0; --d) buffer->minor_to_major.push_back(d);
  return buffer;
}

std::shared_ptr<simdev::Storage> Allocate(PJRT_Memory* memory, int64_t bytes) {
  if (!memory->memory->Reserve(bytes)) return nullptr;
  return std::make_shared<simdev::Storage>(memory->memory, bytes);
}

PJRT_Error* OutOfMemory(PJRT_Memory* memory, int64_t bytes) {
  return Error(kResourceExhausted, memory->memory->debug + " has no room for " + std::to_string(bytes) +
                                       " bytes: " + std::to_string(memory->memory->used) + " of " +
                                       std::to_string(memory->memory->limit) + " are used");
}

// Copies element by element between a dense row-major and a strided array.
void CopyStrided(const char* source, const int64_t* source_strides, char* target, const std::vector<int64_t>& dims,
                 size_t d, int64_t item, int64_t* written) {
  if (d == dims.size()) {
    std::memcpy(target + *written, source, item);
    *written += item;
    return;
  }
  for (int64_t i = 0; i < dims[d]; ++i) {
    CopyStrided(source + i * source_strides[d], source_strides, target, dims, d + 1, item, written);
  }
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
    device->device = std::make_unique<simdev::Device>(static_cast<int>(i), EnvironmentNumber("SIMDEV_MEMORY_BYTES", 0),
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

PJRT_Error* Load(PJRT_Client* client, std::string text, PJRT_LoadedExecutable** executable) {
  auto program = std::make_shared<simdev::Program>();
  const std::string wrong = simdev::Program::Parse(text, program.get());
  if (!wrong.empty()) return Error(kInvalidArgument, "not a simdev program: " + wrong);
  *executable = new PJRT_LoadedExecutable{client, std::move(program)};
  return nullptr;
}
PJRT_Error* ClientCompile(PJRT_Client_Compile_Args* args) {
  return Load(args->client, std::string(args->program->code, args->program->code_size), &args->executable);
}
PJRT_Error* DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args) {
  return Load(args->client, std::string(args->serialized_executable, args->serialized_executable_size),
              &args->loaded_executable);
}

PJRT_Error* BufferFromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  PJRT_Memory* memory = args->memory;
  PJRT_Device* device = args->device;
  if (memory == nullptr) memory = device->memories[0];
  for (const auto& candidate : args->client->devices) {
    if (candidate->device.get() == memory->memory->device) device = candidate.get();
  }
  std::vector<int64_t> dims(args->dims, args->dims + args->num_dims);
  const int64_t item = simdev::ElementBytes(args->type);
  if (item == 0) return Error(kInvalidArgument, "simdev doesn't have this element type");
  const int64_t bytes = simdev::Bytes(args->type, dims);
  std::shared_ptr<simdev::Storage> storage = Allocate(memory, bytes);
  if (storage == nullptr) return OutOfMemory(memory, bytes);
  storage->data.resize(bytes);
  if (args->num_byte_strides == 0) {
    std::memcpy(storage->data.data(), args->data, bytes);
  } else {
    int64_t written = 0;
    CopyStrided(static_cast<const char*>(args->data), args->byte_strides, storage->data.data(), dims, 0, item,
                &written);
  }
  storage->state->Set({});
  auto done = std::make_shared<simdev::State>();
  done->Set({});
  args->done_with_host_buffer = new PJRT_Event{std::move(done)};
  args->buffer = NewBuffer(device, memory, args->type, std::move(dims), std::move(storage));
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
  simdev::Memory& memory = *args->device->device->memories[0];
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

PJRT_Error* ExecutableDestroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}
PJRT_Error* ExecutableName(PJRT_Executable_Name_Args* args) {
  args->executable_name = args->executable->program->name.data();
  args->executable_name_size = args->executable->program->name.size();
  return nullptr;
}
PJRT_Error* ExecutableReplicas(PJRT_Executable_NumReplicas_Args* args) {
  args->num_replicas = 1;
  return nullptr;
}
PJRT_Error* ExecutablePartitions(PJRT_Executable_NumPartitions_Args* args) {
  args->num_partitions = 1;
  return nullptr;
}
PJRT_Error* ExecutableOutputs(PJRT_Executable_NumOutputs_Args* args) {
  args->num_outputs = args->executable->program->outputs.size();
  return nullptr;
}
PJRT_Error* ExecutableCosts(PJRT_Executable_GetCostAnalysis_Args* args) {
  args->num_properties = 0;
  args->properties = nullptr;
  return nullptr;
}
PJRT_Error* ExecutableMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args* args) {
  args->num_outputs = args->executable->program->outputs.size();
  args->memory_kinds = args->executable->memory_kinds.data();
  args->memory_kind_sizes = args->executable->memory_kind_sizes.data();
  return nullptr;
}
PJRT_Error* ExecutableText(PJRT_Executable_OptimizedProgram_Args* args) {
  const std::string& text = args->executable->program->text;
  args->program->format = "simdev";
  args->program->format_size = 6;
  if (args->program->code != nullptr) std::memcpy(args->program->code, text.data(), text.size());
  args->program->code_size = text.size();
  return nullptr;
}
PJRT_Error* ExecutableSerialize(PJRT_Executable_Serialize_Args* args) {
  args->serialized_bytes = args->executable->program->text.data();
  args->serialized_bytes_size = args->executable->program->text.size();
  args->serialized_executable = nullptr;  // the executable owns the bytes
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable*) {};
  return nullptr;
}
PJRT_Error* ExecutableFingerprint(PJRT_Executable_Fingerprint_Args* args) {
  args->executable_fingerprint = args->executable->program->text.data();
  args->executable_fingerprint_size = args->executable->program->text.size();
  return nullptr;
}
PJRT_Error* ExecutableMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  int64_t outputs = 0;
  for (const simdev::Output& output : args->executable->program->outputs) {
    outputs += simdev::Bytes(output.type, output.dims);
  }
  std::memset(&args->generated_code_size_in_bytes, 0, 11 * sizeof(int64_t));  // up to peak_memory_in_bytes
  args->output_size_in_bytes = outputs;
  args->temp_size_in_bytes = args->executable->program->temp_bytes;
  args->peak_memory_in_bytes = outputs + args->executable->program->temp_bytes;
  return nullptr;
}
PJRT_Error* ExecutableTypes(PJRT_Executable_OutputElementTypes_Args* args) {
  args->output_types = args->executable->types.data();
  args->num_output_types = args->executable->types.size();
  return nullptr;
}
PJRT_Error* ExecutableDims(PJRT_Executable_OutputDimensions_Args* args) {
  args->num_outputs = args->executable->dim_sizes.size();
  args->dims = args->executable->dims.data();
  args->dim_sizes = args->executable->dim_sizes.data();
  return nullptr;
}
PJRT_Error* LoadedDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}
PJRT_Error* LoadedGet(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  auto* executable = new PJRT_Executable{args->loaded_executable->program, {}, {}, {}, {}, {}};
  for (const simdev::Output& output : executable->program->outputs) {
    executable->types.push_back(output.type);
    executable->dims.insert(executable->dims.end(), output.dims.begin(), output.dims.end());
    executable->dim_sizes.push_back(output.dims.size());
    executable->memory_kinds.push_back("device");
    executable->memory_kind_sizes.push_back(6);
  }
  args->executable = executable;
  return nullptr;
}

// What one execution needs when its turn comes on the device's thread.
struct Execution {
  std::shared_ptr<const simdev::Program> program;
  std::vector<std::shared_ptr<simdev::Storage>> inputs, outputs;
  std::shared_ptr<simdev::Storage> temporaries;
  simdev::StatePtr done = std::make_shared<simdev::State>();
};

void RunOnDevice(simdev::Device& device, Execution& execution) {
  Failure failure;
  for (const auto& input : execution.inputs) {
    const Failure theirs = input->state->Await();
    if (failure.code == 0 && theirs.code != 0) failure = theirs;
  }
  const int64_t count = ++device.executions;
  const int64_t every = execution.program->fail_every;
  if (failure.code == 0 && every > 0 && count % every == 0) {
    failure = {kAborted, execution.program->name + ": injected fault in execution " + std::to_string(count)};
  }
  if (failure.code == 0) device.Compute(execution.program->compute_us);
  execution.temporaries.reset();
  for (const auto& output : execution.outputs) output->state->Set(failure);
  execution.done->Set(failure);
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  if (args->num_devices != 1) return Error(kInvalidArgument, "simdev runs a program on one device at a time");
  const simdev::Program& program = *args->executable->program;
  PJRT_Device* device = args->execute_device;
  if (device == nullptr) device = args->executable->client->device_list[0];
  PJRT_Memory* memory = device->memories[0];
  auto execution = std::make_shared<Execution>();
  execution->program = args->executable->program;
  for (size_t i = 0; i < args->num_args; ++i) {
    std::shared_ptr<simdev::Storage> storage = args->argument_lists[0][i]->Get();
    if (storage == nullptr) return Error(kInvalidArgument, "argument " + std::to_string(i) + " was deleted or donated");
    execution->inputs.push_back(std::move(storage));
  }
  std::vector<std::shared_ptr<simdev::Storage>> outputs(program.outputs.size());
  const auto kept = [&](int64_t parameter) {
    for (size_t i = 0; i < args->options->num_non_donatable_input_indices; ++i) {
      if (args->options->non_donatable_input_indices[i] == parameter) return true;
    }
    return false;
  };
  std::vector<size_t> taken;
  for (const auto& [result, parameter] : program.aliases) {
    if (parameter >= static_cast<int64_t>(args->num_args)) return Error(kInvalidArgument, "an alias names no argument");
    if (!kept(parameter)) taken.push_back(parameter);
  }
  execution->temporaries = Allocate(memory, program.temp_bytes);
  if (execution->temporaries == nullptr) return OutOfMemory(memory, program.temp_bytes);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int64_t bytes = simdev::Bytes(program.outputs[i].type, program.outputs[i].dims);
    outputs[i] = Allocate(memory, bytes);
    if (outputs[i] == nullptr) return OutOfMemory(memory, bytes);
  }
  for (size_t parameter : taken) args->argument_lists[0][parameter]->Take();
  execution->outputs = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    args->output_lists[0][i] = NewBuffer(device, memory, program.outputs[i].type, program.outputs[i].dims, outputs[i]);
  }
  if (args->device_complete_events != nullptr) args->device_complete_events[0] = new PJRT_Event{execution->done};
  device->device->Queue([device, execution] { RunOnDevice(*device->device, *execution); });
  return nullptr;
}

PJRT_Error* ContextCreate(PJRT_ExecuteContext_Create_Args* args) {
  args->context = new PJRT_ExecuteContext;
  return nullptr;
}
PJRT_Error* ContextDestroy(PJRT_ExecuteContext_Destroy_Args* args) {
  delete args->context;
  return nullptr;
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}
PJRT_Error* BufferType(PJRT_Buffer_ElementType_Args* args) {
  args->type = args->buffer->type;
  return nullptr;
}
PJRT_Error* BufferDims(PJRT_Buffer_Dimensions_Args* args) {
  args->dims = args->buffer->dims.data();
  args->num_dims = args->buffer->dims.size();
  return nullptr;
}
PJRT_Error* BufferLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  args->layout = {};
  args->layout.struct_size = sizeof(args->layout);
  args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args->layout.tiled = {};
  args->layout.tiled.struct_size = sizeof(args->layout.tiled);
  args->layout.tiled.minor_to_major = args->buffer->minor_to_major.data();
  args->layout.tiled.minor_to_major_size = args->buffer->minor_to_major.size();
  return nullptr;
}
PJRT_Error* BufferSize(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  args->on_device_size_in_bytes = simdev::Bytes(args->buffer->type, args->buffer->dims);
  return nullptr;
}
PJRT_Error* BufferDevice(PJRT_Buffer_Device_Args* args) {
  args->device = args->buffer->device;
  return nullptr;
}
PJRT_Error* BufferMemory(PJRT_Buffer_Memory_Args* args) {
  args->memory = args->buffer->memory;
  return nullptr;
}
PJRT_Error* BufferDelete(PJRT_Buffer_Delete_Args* args) {
  args->buffer->Take();
  return nullptr;
}
PJRT_Error* BufferIsDeleted(PJRT_Buffer_IsDeleted_Args* args) {
  args->is_deleted = args->buffer->Get() == nullptr;
  return nullptr;
}

PJRT_Error* CopyTo(PJRT_Buffer* source, PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer** copy) {
  std::shared_ptr<simdev::Storage> from = source->Get();
  if (from == nullptr) return Error(kFailedPrecondition, "the buffer was deleted or donated");
  std::shared_ptr<simdev::Storage> to = Allocate(memory, from->bytes);
  if (to == nullptr) return OutOfMemory(memory, from->bytes);
  from->state->OnReady([from, to](const Failure& failure) {
    to->data = from->data;
    to->state->Set(failure);
  });
  *copy = NewBuffer(device, memory, source->type, source->dims, std::move(to));
  return nullptr;
}
PJRT_Error* BufferCopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  return CopyTo(args->buffer, args->dst_device, args->dst_device->memories[0], &args->dst_buffer);
}
PJRT_Error* BufferCopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  return CopyTo(args->buffer, args->buffer->device, args->dst_memory, &args->dst_buffer);
}
PJRT_Error* BufferToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  std::shared_ptr<simdev::Storage> storage = args->src->Get();
  if (storage == nullptr) return Error(kFailedPrecondition, "the buffer was deleted or donated");
  if (args->dst == nullptr) {
    args->dst_size = storage->bytes;
    return nullptr;
  }
  if (static_cast<int64_t>(args->dst_size) < storage->bytes)
    return Error(kInvalidArgument, "the destination is too small");
  auto done = std::make_shared<simdev::State>();
  args->event = new PJRT_Event{done};
  storage->state->OnReady([storage, done, dst = static_cast<char*>(args->dst)](const Failure& failure) {
    if (failure.code == 0 && storage->data.empty()) std::memset(dst, 0, storage->bytes);
    if (failure.code == 0) std::memcpy(dst, storage->data.data(), storage->data.size());
    done->Set(failure);
  });
  return nullptr;
}
PJRT_Error* BufferIsOnCpu(PJRT_Buffer_IsOnCpu_Args* args) {
  args->is_on_cpu = false;
  return nullptr;
}
PJRT_Error* BufferReady(PJRT_Buffer_ReadyEvent_Args* args) {
  std::shared_ptr<simdev::Storage> storage = args->buffer->Get();
  if (storage == nullptr) return Error(kFailedPrecondition, "the buffer was deleted or donated");
  args->event = new PJRT_Event{storage->state};
  return nullptr;
}
PJRT_Error* BufferPointer(PJRT_Buffer_UnsafePointer_Args*) { return Error(12, "simdev's buffers have no address"); }

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = sizeof(api);
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, 0, 115};
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
  api.PJRT_Client_Compile = ClientCompile;
  api.PJRT_Client_BufferFromHostBuffer = BufferFromHost;
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
  api.PJRT_Executable_Destroy = ExecutableDestroy;
  api.PJRT_Executable_Name = ExecutableName;
  api.PJRT_Executable_NumReplicas = ExecutableReplicas;
  api.PJRT_Executable_NumPartitions = ExecutablePartitions;
  api.PJRT_Executable_NumOutputs = ExecutableOutputs;
  api.PJRT_Executable_GetCostAnalysis = ExecutableCosts;
  api.PJRT_Executable_OutputMemoryKinds = ExecutableMemoryKinds;
  api.PJRT_Executable_OptimizedProgram = ExecutableText;
  api.PJRT_Executable_Serialize = ExecutableSerialize;
  api.PJRT_LoadedExecutable_Destroy = LoadedDestroy;
  api.PJRT_LoadedExecutable_GetExecutable = LoadedGet;
  api.PJRT_LoadedExecutable_Execute = Execute;
  api.PJRT_Executable_DeserializeAndLoad = DeserializeAndLoad;
  api.PJRT_Buffer_Destroy = BufferDestroy;
  api.PJRT_Buffer_ElementType = BufferType;
  api.PJRT_Buffer_Dimensions = BufferDims;
  api.PJRT_Buffer_GetMemoryLayout = BufferLayout;
  api.PJRT_Buffer_OnDeviceSizeInBytes = BufferSize;
  api.PJRT_Buffer_Device = BufferDevice;
  api.PJRT_Buffer_Memory = BufferMemory;
  api.PJRT_Buffer_Delete = BufferDelete;
  api.PJRT_Buffer_IsDeleted = BufferIsDeleted;
  api.PJRT_Buffer_CopyToDevice = BufferCopyToDevice;
  api.PJRT_Buffer_ToHostBuffer = BufferToHost;
  api.PJRT_Buffer_IsOnCpu = BufferIsOnCpu;
  api.PJRT_Buffer_ReadyEvent = BufferReady;
  api.PJRT_Buffer_UnsafePointer = BufferPointer;
  api.PJRT_Executable_OutputElementTypes = ExecutableTypes;
  api.PJRT_Executable_OutputDimensions = ExecutableDims;
  api.PJRT_Buffer_CopyToMemory = BufferCopyToMemory;
  api.PJRT_Executable_Fingerprint = ExecutableFingerprint;
  api.PJRT_Executable_GetCompiledMemoryStats = ExecutableMemoryStats;
  api.PJRT_ExecuteContext_Create = ContextCreate;
  api.PJRT_ExecuteContext_Destroy = ContextDestroy;
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = MakeApi();
  return &api;
}
