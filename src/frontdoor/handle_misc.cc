// Defaults that a client asks for, and host callbacks.
#include <fmt/format.h>

#include "base/status_macros.h"
#include "frontdoor/handlers.h"
#include "frontdoor/request_parts.h"
#include "wire/ifrt/shape.h"

namespace switchtower {

using namespace xla::ifrt::proxy;  // NOLINT: request and response messages only

absl::Status HandleGetDefaultLayout(SessionState& state, const RequestContext& context,
                                    const GetDefaultLayoutRequest& request, GetDefaultLayoutResponse* response) {
  xla::ifrt::ShapeProto dims;
  *dims.mutable_dims() = request.dims();
  ASSIGN_OR_RETURN(const Shape shape, FromProto(request.dtype(), dims));
  const int32_t id = request.device_id();
  ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, ParseDevices(&id, 1, state.devices));
  RETURN_IF_ERROR(CheckMemoryKind(state.session, request.memory_kind()));
  ASSIGN_OR_RETURN(const Layout layout, state.session.DefaultLayout(shape, devices[0], request.memory_kind()));
  // As text: the client aborts on anything else.
  response->set_serialized_pjrt_layout(layout.ToString());
  return absl::OkStatus();
}

absl::Status HandleGetDefaultDeviceAssignment(SessionState& state, const RequestContext& context,
                                              const GetDefaultDeviceAssignmentRequest& request,
                                              GetDefaultDeviceAssignmentResponse* response) {
  const auto& devices = state.session.description().devices;
  const uint64_t replicas = request.num_replicas(), partitions = request.num_partitions();
  if (replicas == 0 || partitions == 0 || replicas > devices.size() || partitions > devices.size() ||
      replicas * partitions > devices.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} replicas of {} partitions don't fit {} devices", replicas, partitions, devices.size()));
  }
  auto* assignment = response->mutable_device_assignment();
  assignment->set_replica_count(static_cast<int32_t>(replicas));
  assignment->set_computation_count(static_cast<int32_t>(partitions));
  for (uint64_t partition = 0; partition < partitions; ++partition) {
    auto* computation = assignment->add_computation_devices();
    for (uint64_t replica = 0; replica < replicas; ++replica) {
      computation->add_replica_device_ids(static_cast<int64_t>(devices[replica * partitions + partition].id.value));
    }
  }
  return absl::OkStatus();
}

absl::Status HandleLoadedHostCallbackPoll(SessionState& state, const RequestContext& context,
                                          const LoadedHostCallbackPollRequest& request,
                                          LoadedHostCallbackPollResponse* response) {
  // No program with host callbacks compiles here (handle_programs.cc), so none will ever be called. An answer
  // without an execution ends the client's polling.
  return absl::OkStatus();
}

absl::Status HandleLoadedHostCallbackReturn(SessionState& state, const RequestContext& context,
                                            const LoadedHostCallbackReturnRequest& request,
                                            LoadedHostCallbackReturnResponse* response) {
  if (request.has_result_host_buffer_handle()) state.buffers->Discard(request.result_host_buffer_handle());
  return absl::InvalidArgumentError(
      fmt::format("there is no host callback execution {}", request.host_callback_execution_handle()));
}

}  // namespace switchtower
