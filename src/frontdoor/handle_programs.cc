// Programs: compiling, what is known of them, their end.
#include <fmt/format.h>

#include "base/status_macros.h"
#include "frontdoor/handlers.h"
#include "wire/ifrt/attributes.h"
#include "wire/ifrt/message_version.h"
#include "wire/ifrt/shape.h"
#include "xla/python/pjrt_ifrt/xla_compiler.pb.h"

namespace switchtower {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT: request and response messages only

absl::Status CheckProgramType(const std::string& type) {
  if (type == "xla::ifrt::XlaProgram") return absl::OkStatus();
  if (type == "xla::ifrt::CustomCallProgram") {
    return absl::UnimplementedError("colocated Python isn't supported by this server");
  }
  return absl::UnimplementedError(fmt::format("programs of type \"{}\" aren't supported", type));
}

// The serialised xla.CompileOptionsProto in the request.
absl::StatusOr<std::string> ParseOptions(const CompileRequest& request) {
  if (request.host_callbacks_size() > 0) {
    // Published clients refuse to run a callback that a server asks for, whatever the server does.
    return absl::UnimplementedError(
        "the program has host callbacks, which the IFRT proxy client can't run (jax.debug.print, "
        "io_callback, pure_callback)");
  }
  const std::string& type = request.compile_options().type_name();
  if (type != "xla::ifrt::XlaCompileOptions") {
    return absl::InvalidArgumentError(fmt::format("an XLA program can't have options of type \"{}\"", type));
  }
  xla::ifrt::XlaCompileOptionsProto options;
  if (!options.ParseFromString(request.compile_options().data())) {
    return absl::InvalidArgumentError("compile options don't parse");
  }
  RETURN_IF_ERROR(CheckMessageVersion(options, "compile options"));
  if (options.outputs_bundle_slice_sizes_size() > 0) {
    return absl::UnimplementedError("bundled outputs aren't supported");
  }
  return std::move(*options.mutable_compile_options());
}

void FillCompiled(const CompileReply& reply, uint64_t ready, CompileResponse* response) {
  response->set_loaded_executable_handle(reply.executable);
  response->set_name(reply.name);
  response->set_num_devices(static_cast<int32_t>(reply.devices.size()));
  for (DeviceId device : reply.devices) {
    response->add_device_ids(static_cast<int32_t>(device.value));
    response->add_addressable_device_ids(static_cast<int32_t>(device.value));
  }
  response->set_fingerprint_value(reply.fingerprint);
  response->set_ready_future_handle(ready);
}

// One sharding for each value, or none at all for a program of one device that says nothing of shardings.
absl::StatusOr<LoadedExecutableMetadataResponse::ShardingList> ToShardings(const std::vector<ProgramValue>& values) {
  LoadedExecutableMetadataResponse::ShardingList list;
  for (const ProgramValue& value : values) {
    if (!list.add_shardings()->ParseFromString(value.op_sharding)) {
      return absl::InternalError("the compiler gave a sharding that doesn't parse");
    }
  }
  return list;
}

bool SaysShardings(const ProgramInfo& info) {
  if (info.num_partitions > 1) return true;
  for (const auto* values : {&info.parameters, &info.results}) {
    for (const ProgramValue& value : *values) {
      if (!value.op_sharding.empty()) return true;
    }
  }
  return false;
}

void FillMemoryStats(const MemoryStats& memory, xla::CompiledMemoryStatsProto* proto) {
  proto->set_generated_code_size_in_bytes(memory.generated_code);
  proto->set_argument_size_in_bytes(memory.arguments);
  proto->set_output_size_in_bytes(memory.outputs);
  proto->set_alias_size_in_bytes(memory.alias);
  proto->set_temp_size_in_bytes(memory.temporaries);
  proto->set_host_argument_size_in_bytes(memory.host_arguments);
  proto->set_host_output_size_in_bytes(memory.host_outputs);
  proto->set_host_temp_size_in_bytes(memory.host_temporaries);
  proto->set_peak_memory_in_bytes(memory.peak);
}

// The executable's end; an error if there is no such executable.
absl::Status DestructExecutable(SessionState& state, uint64_t executable) {
  if (!state.plugin_programs.Contains(executable)) return state.session.DestructExecutable(executable);
  state.plugin_programs.Erase(executable);
  return absl::OkStatus();
}

absl::StatusOr<IfrtResponse> CompilePluginProgram(SessionState& state, const CompileRequest& request, uint64_t ready) {
  IfrtResponse response;
  ASSIGN_OR_RETURN(const CompileReply reply, state.plugin_programs.Compile(request.program().data(), state.devices));
  RETURN_IF_ERROR(state.futures->AddFilled(ready, absl::OkStatus()));
  FillCompiled(reply, ready, response.mutable_compile_response());
  return response;
}

// jax insists on one list with one entry for each output.
void FillMemoryKinds(const std::vector<std::string>& kinds, LoadedExecutableMetadataResponse* response) {
  auto* list = response->mutable_output_memory_kinds()->add_memory_kind_lists();
  for (const std::string& kind : kinds) list->add_memory_kinds(kind);
}

}  // namespace

void HandleCompile(SessionState& state, const RequestContext& context, CompileRequest& request,
                   const Replier& replier) {
  if (request.program().type_name() == "xla::ifrt::PluginProgram") {
    auto response = CompilePluginProgram(state, request, state.session.NewHandle());
    if (response.ok()) {
      replier.Ok(*std::move(response));
    } else {
      replier.FailTheCall(response.status());
    }
    return;
  }
  absl::Status status = CheckProgramType(request.program().type_name());
  absl::StatusOr<std::string> options = status.ok() ? ParseOptions(request) : status;
  // The client asks for this future whatever it is told; it is there before the executable is.
  const uint64_t ready = state.session.NewHandle();
  if (options.ok()) status = state.futures->AddFilled(ready, absl::OkStatus());
  if (!options.ok() || !status.ok()) {
    replier.FailTheCall(options.ok() ? status : options.status());
    return;
  }
  state.session.Compile(std::move(*request.mutable_program()->mutable_data()), *std::move(options),
                        context.user_context,
                        [replier, futures = state.futures, ready](absl::StatusOr<CompileReply> reply) {
                          if (!reply.ok()) {
                            futures->Drop(ready);
                            replier.FailTheCall(reply.status());
                            return;
                          }
                          IfrtResponse response;
                          FillCompiled(*reply, ready, response.mutable_compile_response());
                          replier.Ok(std::move(response));
                        });
}

absl::Status HandleLoadedExecutableMetadata(SessionState& state, const RequestContext& context,
                                            const LoadedExecutableMetadataRequest& request,
                                            LoadedExecutableMetadataResponse* response) {
  if (state.plugin_programs.Contains(request.loaded_executable_handle())) {
    FillMemoryKinds(state.plugin_programs.ResultMemoryKinds(request.loaded_executable_handle()), response);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto program, state.session.Program(request.loaded_executable_handle()));
  const ProgramInfo& info = program->info;
  if (SaysShardings(info)) {
    ASSIGN_OR_RETURN(*response->mutable_parameter_shardings(), ToShardings(info.parameters));
    ASSIGN_OR_RETURN(*response->mutable_output_shardings(), ToShardings(info.results));
  }
  auto* parameter_layouts = response->mutable_parameter_layouts_list();
  for (const ProgramValue& value : info.parameters) ToProto(value.layout, parameter_layouts->add_layouts());
  auto* output_layouts = response->mutable_output_layouts_list();
  std::vector<std::string> kinds;
  for (const ProgramValue& value : info.results) {
    ToProto(value.layout, output_layouts->add_layouts());
    kinds.push_back(value.memory_kind.empty() ? state.session.description().memory_kinds[0] : value.memory_kind);
  }
  FillMemoryKinds(kinds, response);
  auto* donated = response->mutable_donated_input_indices();
  for (int32_t index : info.donatable_parameters) donated->add_donated_input_indices(index);
  FillMemoryStats(info.memory, response->mutable_compiled_memory_stats());
  response->set_size_of_generated_code_in_bytes(info.memory.generated_code);
  return absl::OkStatus();
}

absl::Status HandleLoadedExecutableCostAnalysis(SessionState& state, const RequestContext& context,
                                                const LoadedExecutableCostAnalysisRequest& request,
                                                LoadedExecutableCostAnalysisResponse* response) {
  ASSIGN_OR_RETURN(auto program, state.session.Program(request.loaded_executable_handle()));
  auto* attributes = response->mutable_attributes();
  for (const auto& [name, cost] : program->info.costs) SetAttribute(name, static_cast<float>(cost), attributes);
  return absl::OkStatus();
}

absl::Status HandleLoadedExecutableHumanReadableProgramText(
    SessionState& state, const RequestContext& context, const LoadedExecutableHumanReadableProgramTextRequest& request,
    LoadedExecutableHumanReadableProgramTextResponse* response) {
  ASSIGN_OR_RETURN(auto program, state.session.Program(request.loaded_executable_handle()));
  response->set_human_readable_program_text(program->hlo_text);
  return absl::OkStatus();
}

absl::Status HandleLoadedExecutableDelete(SessionState& state, const RequestContext& context,
                                          const LoadedExecutableDeleteRequest& request,
                                          LoadedExecutableDeleteResponse* response) {
  const uint64_t executable = request.loaded_executable_handle();
  RETURN_IF_ERROR(DestructExecutable(state, executable));
  state.deleted_executables.insert(executable);
  const uint64_t future = state.session.NewHandle();
  response->set_future_handle(future);
  return state.futures->AddFilled(future, absl::OkStatus());
}

absl::Status HandleLoadedExecutableIsDeleted(SessionState& state, const RequestContext& context,
                                             const LoadedExecutableIsDeletedRequest& request,
                                             LoadedExecutableIsDeletedResponse* response) {
  const bool deleted = state.deleted_executables.contains(request.loaded_executable_handle());
  if (!deleted && !state.plugin_programs.Contains(request.loaded_executable_handle())) {
    RETURN_IF_ERROR(state.session.Program(request.loaded_executable_handle()).status());
  }
  response->set_is_deleted(deleted);
  return absl::OkStatus();
}

absl::Status HandleLoadedExecutableDestruct(SessionState& state, const RequestContext& context,
                                            const LoadedExecutableDestructRequest& request,
                                            LoadedExecutableDestructResponse* response) {
  if (state.deleted_executables.erase(request.loaded_executable_handle()) > 0) return absl::OkStatus();
  return DestructExecutable(state, request.loaded_executable_handle());
}

}  // namespace switchtower
