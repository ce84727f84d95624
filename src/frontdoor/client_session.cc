#include "frontdoor/client_session.h"

#include <fmt/format.h>

#include "base/log.h"
#include "frontdoor/handlers.h"
#include "frontdoor/new_arrays.h"
#include "google/protobuf/unknown_field_set.h"

namespace switchtower {
namespace {

DeviceSet DevicesOf(const Session& session) {
  DeviceSet devices;
  for (const VirtualDevice& device : session.description().devices) devices.insert(device.id);
  return devices;
}

// A request of a kind that this server has never heard of leaves only an unknown field.
absl::Status UnknownRequestError(const IfrtRequest& request) {
  const auto& unknown = request.GetReflection()->GetUnknownFields(request);
  if (unknown.empty()) return absl::InvalidArgumentError("the message holds no request");
  return absl::UnimplementedError(fmt::format("requests with field number {} aren't known to this server",
                                              unknown.field(unknown.field_count() - 1).number()));
}

absl::Status MpmdError() {
  return absl::UnimplementedError("this executable isn't an MPMD program: it has no metadata by mesh");
}

}  // namespace

ClientSession::ClientSession(std::unique_ptr<Session> session, ProxyVersion version,
                             std::shared_ptr<HostBufferStore> buffers, std::string agent_token)
    : session_(std::move(session)),
      state_{.session = *session_,
             .version = version,
             .devices = DevicesOf(*session_),
             .buffers = std::move(buffers),
             .agent_token = std::move(agent_token)} {}

ClientSession::~ClientSession() { Close(absl::CancelledError("session has ended")); }

void ClientSession::Close(const absl::Status& reason) {
  if (closed_) return;
  closed_ = true;
  // First the waits for the client's bytes, then everything else.
  state_.buffers->Close(reason);
  session_->Close(reason);
}

ClientSession::Counts ClientSession::counts() const {
  const UserContextTable::Counts contexts = state_.user_contexts->counts();
  return {state_.buffers->counts().buffers, state_.futures->size() + state_.results->size(), contexts.contexts,
          contexts.arrays};
}

void ClientSession::Handle(IfrtRequest& request, const std::weak_ptr<ReplySink>& sink) {
  UserContextTable& user_contexts = *state_.user_contexts;
  RequestContext context{request.request_metadata().op_id(), request.request_metadata().user_context_id()};
  context.context_ref = user_contexts.Begin(context.user_context);
  context.numbered = MakesArrays(request);
  const Replier replier(sink, context, state_.user_contexts);
  IfrtResponse response;
  absl::Status status;
  switch (request.request_case()) {
// The response's oneof is set before the handler runs: an empty message must be there too.
#define ST_HANDLE_(Name, field)                                                                               \
  case IfrtRequest::k##Name##Request:                                                                         \
    status = Handle##Name(state_, context, request.field##_request(), response.mutable_##field##_response()); \
    break;
#define ST_HANDLE_ASYNC_(Name, field)                                             \
  case IfrtRequest::k##Name##Request:                                             \
    Handle##Name(state_, context, *request.mutable_##field##_request(), replier); \
    return;
    ST_HANDLE_(Init, init)
    ST_HANDLE_ASYNC_(CheckFuture, check_future)
    ST_HANDLE_ASYNC_(CheckValueReady, check_value_ready)
    ST_HANDLE_(MakeArrayFromHostBuffer, make_array_from_host_buffer)
    ST_HANDLE_(MakeArraysFromHostBufferShards, make_arrays_from_host_buffer_shards)
    ST_HANDLE_(MakeErrorArrays, make_error_arrays)
    ST_HANDLE_(AssembleArrayFromSingleDeviceArrays, assemble_array_from_single_device_arrays)
    ST_HANDLE_(RemapArrays, remap_arrays)
    ST_HANDLE_(BitcastArrays, bitcast_arrays)
    ST_HANDLE_(ReshardArrays, reshard_arrays)
    ST_HANDLE_ASYNC_(CopyToHostBuffer, copy_to_host_buffer)
    ST_HANDLE_(DisassembleIntoSingleDeviceArrays, disassemble_into_single_device_arrays)
    ST_HANDLE_(DeleteArray, delete_array)
    ST_HANDLE_(CopyArrays, copy_arrays)
    ST_HANDLE_(FullyReplicatedShard, fully_replicated_shard)
    ST_HANDLE_(IsArrayDeleted, is_array_deleted)
    ST_HANDLE_(DestructArray, destruct_array)
    ST_HANDLE_ASYNC_(Compile, compile)
    ST_HANDLE_(LoadedExecutableMetadata, loaded_executable_metadata)
    ST_HANDLE_(LoadedExecutableExecute, loaded_executable_execute)
    ST_HANDLE_ASYNC_(LoadedExecutableFetchExecuteResult, loaded_executable_fetch_execute_result)
    ST_HANDLE_(LoadedExecutableCostAnalysis, loaded_executable_cost_analysis)
    ST_HANDLE_(LoadedExecutableHumanReadableProgramText, loaded_executable_human_readable_program_text)
    ST_HANDLE_(LoadedExecutableDelete, loaded_executable_delete)
    ST_HANDLE_(LoadedExecutableIsDeleted, loaded_executable_is_deleted)
    ST_HANDLE_(LoadedExecutableDestruct, loaded_executable_destruct)
    ST_HANDLE_(LoadedHostCallbackPoll, loaded_host_callback_poll)
    ST_HANDLE_(LoadedHostCallbackReturn, loaded_host_callback_return)
    ST_HANDLE_(GetDefaultDeviceAssignment, get_default_device_assignment)
    ST_HANDLE_(GetDefaultLayout, get_default_layout)
#undef ST_HANDLE_
#undef ST_HANDLE_ASYNC_
    case IfrtRequest::kLoadedExecutableMpmdMetadataRequest:
    case IfrtRequest::kLoadedExecutableMpmdCostAnalysisRequest:
      status = MpmdError();
      break;
    case IfrtRequest::REQUEST_NOT_SET:
      status = UnknownRequestError(request);
      break;
  }
  ForEachNewArray(request, response, [&](uint64_t array) { user_contexts.Own(array, context.context_ref); });
  if (!status.ok()) {
    LogDebug("session {}: request {} failed: {}", session_->description().id.value, context.op_id, status.ToString());
  }
  replier.Done(status, std::move(response));
}

}  // namespace switchtower
