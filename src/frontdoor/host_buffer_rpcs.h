// The RPCs that carry host buffers, beside the session's stream and in no order with it.
//
// Threads:  gRPC's; nothing blocks on them.
// Lifetime: each reactor deletes itself in OnDone.
// Errors:   a failed upload makes the client give up its session, so only real faults fail: an unknown or ended
//           session, a handle used twice, a size that doesn't match (DataLoss).
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "frontdoor/session_registry.h"
#include "frontdoor/session_stream.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.pb.h"

namespace switchtower {

// What an upload says of itself before its bytes.
absl::StatusOr<xla::ifrt::proxy::GrpcHostBufferStoreMetadata> StoreMetadata(const grpc::CallbackServerContext& context);

grpc::ServerReadReactor<xla::ifrt::proxy::GrpcHostBufferStoreRequest>* StoreHostBuffer(
    SessionRegistry& registry, grpc::CallbackServerContext* context);

grpc::ServerWriteReactor<xla::ifrt::proxy::GrpcHostBufferLookupResponse>* LookupHostBuffer(
    SessionRegistry& registry, const xla::ifrt::proxy::GrpcHostBufferLookupRequest& request);

grpc::ServerUnaryReactor* DeleteHostBuffer(SessionRegistry& registry, grpc::CallbackServerContext* context,
                                           const xla::ifrt::proxy::GrpcHostBufferDeleteRequest& request);

grpc::ServerUnaryReactor* ReadHostBufferFromDisk(DoorContext& door, grpc::CallbackServerContext* context,
                                                 const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest& request);

}  // namespace switchtower
