#include "frontdoor/new_arrays.h"

namespace switchtower {

bool MakesArrays(const IfrtRequest& request) {
  switch (request.request_case()) {
    case IfrtRequest::kMakeArrayFromHostBufferRequest:
    case IfrtRequest::kMakeArraysFromHostBufferShardsRequest:
    case IfrtRequest::kMakeErrorArraysRequest:
    case IfrtRequest::kAssembleArrayFromSingleDeviceArraysRequest:
    case IfrtRequest::kDisassembleIntoSingleDeviceArraysRequest:
    case IfrtRequest::kFullyReplicatedShardRequest:
    case IfrtRequest::kCopyArraysRequest:
    case IfrtRequest::kRemapArraysRequest:
    case IfrtRequest::kReshardArraysRequest:
    case IfrtRequest::kBitcastArraysRequest:
    case IfrtRequest::kLoadedExecutableExecuteRequest:
      return true;
    default:
      return false;
  }
}

void ForEachNewArray(const IfrtRequest& request, const IfrtResponse& response, absl::FunctionRef<void(uint64_t)> fn) {
  const auto all = [&](const auto& handles) {
    for (uint64_t handle : handles) fn(handle);
  };
  switch (request.request_case()) {
    case IfrtRequest::kMakeArrayFromHostBufferRequest:
      return fn(request.make_array_from_host_buffer_request().array_handle());
    case IfrtRequest::kMakeArraysFromHostBufferShardsRequest:
      return all(request.make_arrays_from_host_buffer_shards_request().array_handles());
    case IfrtRequest::kMakeErrorArraysRequest:
      return all(request.make_error_arrays_request().array_handles());
    case IfrtRequest::kAssembleArrayFromSingleDeviceArraysRequest:
      return fn(request.assemble_array_from_single_device_arrays_request().result_handle());
    case IfrtRequest::kDisassembleIntoSingleDeviceArraysRequest:
      return all(request.disassemble_into_single_device_arrays_request().result_handles());
    case IfrtRequest::kFullyReplicatedShardRequest:
      return fn(request.fully_replicated_shard_request().result_handle());
    case IfrtRequest::kCopyArraysRequest:
      return all(request.copy_arrays_request().result_handles());
    case IfrtRequest::kRemapArraysRequest:
      return all(request.remap_arrays_request().result_handles());
    case IfrtRequest::kReshardArraysRequest:
      return all(request.reshard_arrays_request().result_handles());
    case IfrtRequest::kBitcastArraysRequest:
      return all(request.bitcast_arrays_request().result_handles());
    case IfrtRequest::kLoadedExecutableExecuteRequest:
      all(request.loaded_executable_execute_request().result_array_handle());
      for (const auto& output : response.loaded_executable_execute_response().outputs()) fn(output.array_handle());
      return;
    default:
      return;
  }
}

}  // namespace switchtower
