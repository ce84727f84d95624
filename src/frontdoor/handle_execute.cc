// Executing a program: the hot path. The client waits for the answer to an executable's first execution only.
#include <fmt/format.h>

#include "base/status_macros.h"
#include "frontdoor/handlers.h"
#include "frontdoor/request_parts.h"
#include "wire/ifrt/attributes.h"
#include "wire/ifrt/message_version.h"
#include "wire/ifrt/shape.h"

namespace switchtower {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT: request and response messages only

// What jax sends with `jax_send_traceback_to_runtime`: FILE:LINE, or a whole stack.
constexpr char kCallLocation[] = "call_location";
constexpr size_t kCallSiteMax = 256;

// An executable has its devices; a request may only repeat them.
absl::Status CheckDevices(SessionState& state, const LoadedExecutableExecuteRequest& request) {
  if (request.device_ids().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto devices,
                   ParseDevices(request.device_ids().data(), request.device_ids_size(), state.devices));
  const uint64_t executable = request.loaded_executable_handle();
  ASSIGN_OR_RETURN(const auto own, state.plugin_programs.Contains(executable)
                                       ? state.plugin_programs.Devices(executable)
                                       : state.session.ProgramDevices(executable));
  if (devices == own) return absl::OkStatus();
  return absl::UnimplementedError("an executable can't be executed on other devices than it was compiled for");
}

absl::StatusOr<ExecuteRequest> Parse(SessionState& state, const RequestContext& context,
                                     const LoadedExecutableExecuteRequest& request) {
  RETURN_IF_ERROR(CheckMessageVersion(request.execute_options(), "execute options"));
  RETURN_IF_ERROR(CheckDevices(state, request));
  ExecuteRequest execute;
  execute.executable = request.loaded_executable_handle();
  execute.arguments = ArrayIds(request.args_handles());
  ASSIGN_OR_RETURN(execute.results,
                   ResultIds(state, request.result_array_handle(), request.result_array_handle().size()));
  for (int32_t index : request.execute_options().non_donatable_input_indices()) {
    if (index < 0) return absl::InvalidArgumentError(fmt::format("there is no input {}", index));
    execute.non_donatable.push_back(static_cast<uint32_t>(index));
  }
  execute.launch_id = request.execute_options().launch_id();
  execute.user_context = context.user_context;
  if (auto site = StringAttribute(request.execute_options().custom_options(), kCallLocation)) {
    execute.call_site = site->substr(0, kCallSiteMax);
  }
  if (request.result_status_handle() != 0) RETURN_IF_ERROR(CheckClientHandle(request.result_status_handle()));
  return execute;
}

absl::Status FillOutputs(const ExecuteReply& reply, LoadedExecutableExecuteResponse* response) {
  for (size_t i = 0; i < reply.results.size(); ++i) {
    const ArraySpec& spec = reply.specs[i];
    auto* output = response->add_outputs();
    ToProto(spec.shape.dtype, output->mutable_dtype());
    ToProto(spec.shape.dims, output->mutable_shape());
    RETURN_IF_ERROR(ToProto(spec.sharding, spec.shape, output->mutable_sharding()));
    output->set_array_handle(reply.results[i].value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status HandleLoadedExecutableExecute(SessionState& state, const RequestContext& context,
                                           const LoadedExecutableExecuteRequest& request,
                                           LoadedExecutableExecuteResponse* response) {
  FutureTable& statuses = state.version.protocol >= kProtocolFetchExecuteResult ? *state.results : *state.futures;
  const uint64_t client_status = request.result_status_handle();
  auto execute = Parse(state, context, request);
  if (!execute.ok()) {
    if (request.execute_options().fill_status() && CheckClientHandle(client_status).ok()) {
      statuses.AddFilled(client_status, AttachUserContext(execute.status(), context.user_context)).IgnoreError();
    }
    return BindErrors(state, context, request.result_array_handle(), execute.status());
  }
  const bool want_status = request.execute_options().fill_status();
  Callback<absl::Status> fill = [](absl::Status) {};
  uint64_t status_handle = 0;
  if (want_status) {
    status_handle = client_status != 0 ? client_status : state.session.NewHandle();
    auto added = statuses.Add(status_handle);
    if (!added.ok()) return BindErrors(state, context, request.result_array_handle(), added.status());
    fill = *std::move(added);
  }
  auto launch = state.user_contexts->BeginLaunch(context.context_ref);
  auto ended = [user_contexts = state.user_contexts, launch, fill = std::move(fill)](absl::Status status) mutable {
    user_contexts->EndLaunch(*launch, status);
    fill(std::move(status));
  };
  auto reply = state.plugin_programs.Contains(execute->executable)
                   ? state.plugin_programs.Execute(*execute, std::move(ended))
                   : state.session.Execute(*execute, std::move(ended));
  if (!reply.ok()) {
    state.user_contexts->EndLaunch(*launch, reply.status());
    if (want_status) {
      // The client asks for the end of what it named itself, even if it never began.
      statuses.Drop(status_handle);
      if (client_status != 0) {
        statuses.AddFilled(client_status, AttachUserContext(reply.status(), context.user_context)).IgnoreError();
      }
    }
    return reply.status();
  }
  response->set_status_handle(status_handle);
  return execute->results.empty() ? FillOutputs(*reply, response) : absl::OkStatus();
}

}  // namespace switchtower
