// What a compiled program tells about itself.
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "pjrt/call.h"
#include "pjrt/executable.h"

namespace switchtower::pjrt {

Executable::Executable(std::shared_ptr<Client> client, abi::PJRT_Executable* executable)
    : client_(std::move(client)), executable_(executable) {}

Executable::Executable(Executable&& other) noexcept
    : client_(std::move(other.client_)), executable_(std::exchange(other.executable_, nullptr)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(executable_, other.executable_);
  return *this;
}

Executable::~Executable() {
  if (executable_ == nullptr) return;
  auto args = MakeArgs<abi::PJRT_Executable_Destroy_Args>();
  args.executable = executable_;
  Call(client_->api(), client_->api()->PJRT_Executable_Destroy, args).IgnoreError();
}

absl::StatusOr<std::string> Executable::Name() const {
  auto args = MakeArgs<abi::PJRT_Executable_Name_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_Name, args));
  return MakeString(args.executable_name, args.executable_name_size);
}

absl::StatusOr<int64_t> Executable::NumReplicas() const {
  auto args = MakeArgs<abi::PJRT_Executable_NumReplicas_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_NumReplicas, args));
  return static_cast<int64_t>(args.num_replicas);
}

absl::StatusOr<int64_t> Executable::NumPartitions() const {
  auto args = MakeArgs<abi::PJRT_Executable_NumPartitions_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_NumPartitions, args));
  return static_cast<int64_t>(args.num_partitions);
}

absl::StatusOr<int64_t> Executable::NumOutputs() const {
  auto args = MakeArgs<abi::PJRT_Executable_NumOutputs_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_NumOutputs, args));
  return static_cast<int64_t>(args.num_outputs);
}

absl::StatusOr<std::vector<ExecutableOutput>> Executable::Outputs() const {
  const abi::PJRT_Api* api = client_->api();
  auto types = MakeArgs<abi::PJRT_Executable_OutputElementTypes_Args>();
  types.executable = executable_;
  RETURN_IF_ERROR(Call(api, api->PJRT_Executable_OutputElementTypes, types));
  auto dims = MakeArgs<abi::PJRT_Executable_OutputDimensions_Args>();
  dims.executable = executable_;
  RETURN_IF_ERROR(Call(api, api->PJRT_Executable_OutputDimensions, dims));
  auto kinds = MakeArgs<abi::PJRT_Executable_OutputMemoryKinds_Args>();
  kinds.executable = executable_;
  RETURN_IF_ERROR(Call(api, api->PJRT_Executable_OutputMemoryKinds, kinds));
  if (types.num_output_types != dims.num_outputs || kinds.num_outputs != dims.num_outputs) {
    return absl::InternalError("the plug-in contradicts itself about a program's number of outputs");
  }
  std::vector<ExecutableOutput> outputs(dims.num_outputs);
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(outputs[i].shape.dtype, FromBufferType(types.output_types[i]));
    outputs[i].shape.dims.assign(next, next + dims.dim_sizes[i]);
    next += dims.dim_sizes[i];
    outputs[i].memory_kind = MakeString(kinds.memory_kinds[i], kinds.memory_kind_sizes[i]);
  }
  return outputs;
}

absl::StatusOr<MemoryStats> Executable::GetMemoryStats() const {
  auto args = MakeArgs<abi::PJRT_Executable_GetCompiledMemoryStats_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_GetCompiledMemoryStats, args));
  MemoryStats stats;
  stats.generated_code = args.generated_code_size_in_bytes;
  stats.arguments = args.argument_size_in_bytes;
  stats.outputs = args.output_size_in_bytes;
  stats.alias = args.alias_size_in_bytes;
  stats.temporaries = args.temp_size_in_bytes;
  stats.peak = args.peak_memory_in_bytes;
  stats.host_arguments = args.host_argument_size_in_bytes;
  stats.host_outputs = args.host_output_size_in_bytes;
  stats.host_temporaries = args.host_temp_size_in_bytes;
  return stats;
}

absl::StatusOr<std::map<std::string, double>> Executable::CostAnalysis() const {
  auto args = MakeArgs<abi::PJRT_Executable_GetCostAnalysis_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_GetCostAnalysis, args));
  std::map<std::string, double> costs;
  for (const auto& [name, value] : ReadNamedValues(args.properties, args.num_properties)) {
    if (const float* number = std::get_if<float>(&value)) costs[name] = *number;
    if (const int64_t* number = std::get_if<int64_t>(&value)) costs[name] = static_cast<double>(*number);
  }
  return costs;
}

absl::StatusOr<std::string> Executable::Fingerprint() const {
  auto args = MakeArgs<abi::PJRT_Executable_Fingerprint_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_Fingerprint, args));
  return MakeString(args.executable_fingerprint, args.executable_fingerprint_size);
}

absl::StatusOr<std::pair<std::string, std::string>> Executable::OptimizedProgram() const {
  auto program = MakeArgs<abi::PJRT_Program>();
  auto args = MakeArgs<abi::PJRT_Executable_OptimizedProgram_Args>();
  args.executable = executable_;
  args.program = &program;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_OptimizedProgram, args));
  std::string code(program.code_size, '\0');
  program.code = code.data();
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_OptimizedProgram, args));
  return std::make_pair(MakeString(program.format, program.format_size), std::move(code));
}

absl::StatusOr<std::string> Executable::Serialize() const {
  auto args = MakeArgs<abi::PJRT_Executable_Serialize_Args>();
  args.executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Executable_Serialize, args));
  const absl::Cleanup free_bytes = [&args] {
    if (args.serialized_executable_deleter != nullptr) {
      args.serialized_executable_deleter(args.serialized_executable);
    }
  };
  return MakeString(args.serialized_bytes, args.serialized_bytes_size);
}

}  // namespace switchtower::pjrt
