// Entries for programs: text that is parsed, and executions that wait for their turn on a device.
#include <cstring>

#include "plugins/simdev/api.h"

namespace simdev {

using namespace switchtower::pjrt::abi;  // NOLINT: the ABI's own names

namespace {

PJRT_Error* Load(PJRT_Client* client, std::string text, PJRT_LoadedExecutable** executable) {
  auto program = std::make_shared<Program>();
  const std::string wrong = Program::Parse(text, program.get());
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
  for (const Output& output : args->executable->program->outputs) {
    outputs += Bytes(output.type, output.dims);
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
  for (const Output& output : executable->program->outputs) {
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
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<Storage>> inputs, outputs;
  std::shared_ptr<Storage> temporaries;
  StatePtr done = std::make_shared<State>();
};

void RunOnDevice(Device& device, Execution& execution) {
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
  const Program& program = *args->executable->program;
  PJRT_Device* device = args->execute_device;
  if (device == nullptr) device = args->executable->client->device_list[0];
  PJRT_Memory* memory = device->memories[0];
  auto execution = std::make_shared<Execution>();
  execution->program = args->executable->program;
  for (size_t i = 0; i < args->num_args; ++i) {
    std::shared_ptr<Storage> storage = args->argument_lists[0][i]->Get();
    if (storage == nullptr) return Error(kInvalidArgument, "argument " + std::to_string(i) + " was deleted or donated");
    execution->inputs.push_back(std::move(storage));
  }
  std::vector<std::shared_ptr<Storage>> outputs(program.outputs.size());
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
    const int64_t bytes = Bytes(program.outputs[i].type, program.outputs[i].dims);
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

}  // namespace

void AddProgramEntries(PJRT_Api& api) {
  api.PJRT_Client_Compile = ClientCompile;
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
  api.PJRT_Executable_OutputElementTypes = ExecutableTypes;
  api.PJRT_Executable_OutputDimensions = ExecutableDims;
  api.PJRT_Executable_Fingerprint = ExecutableFingerprint;
  api.PJRT_Executable_GetCompiledMemoryStats = ExecutableMemoryStats;
  api.PJRT_ExecuteContext_Create = ContextCreate;
  api.PJRT_ExecuteContext_Destroy = ContextDestroy;
}

}  // namespace simdev
