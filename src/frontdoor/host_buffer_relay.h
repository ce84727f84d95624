// Host buffers of relayed sessions: each call goes on to the session's home, a message at a time.
//
// Threads:    gRPC's; nothing blocks on them.
// Lifetime:   each relay deletes itself when both of its calls have ended.
// Errors:     the home's, as they come.
// Invariants: H-1 a message is read when the one before it was written: one is held a call, whatever its buffer's size.
#pragma once

#include <memory>

#include <grpcpp/grpcpp.h>

#include "frontdoor/relay_table.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.pb.h"

namespace switchtower {

grpc::ServerReadReactor<xla::ifrt::proxy::GrpcHostBufferStoreRequest>* RelayStore(
    std::shared_ptr<const HomeDoor> home, grpc::CallbackServerContext* context,
    xla::ifrt::proxy::GrpcHostBufferStoreResponse* response);

grpc::ServerWriteReactor<xla::ifrt::proxy::GrpcHostBufferLookupResponse>* RelayLookup(
    std::shared_ptr<const HomeDoor> home, const xla::ifrt::proxy::GrpcHostBufferLookupRequest* request);

grpc::ServerUnaryReactor* RelayDelete(std::shared_ptr<const HomeDoor> home, grpc::CallbackServerContext* context,
                                      const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request,
                                      xla::ifrt::proxy::GrpcHostBufferDeleteResponse* response);

grpc::ServerUnaryReactor* RelayReadFromDisk(std::shared_ptr<const HomeDoor> home, grpc::CallbackServerContext* context,
                                            const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest* request,
                                            xla::ifrt::proxy::GrpcHostBufferReadFromDiskResponse* response);

}  // namespace switchtower
