// xla.ifrt.proxy.GrpcIfrtService: settles versions and starts a reactor for each call, which serves it here or, for a
// relayed session, at its home.
#pragma once

#include <grpcpp/grpcpp.h>

#include "frontdoor/session_stream.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.grpc.pb.h"

namespace switchtower {

class IfrtService final : public xla::ifrt::proxy::GrpcIfrtService::CallbackService {
 public:
  // `door` outlives the service.
  explicit IfrtService(DoorContext& door) : door_(door) {}

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const xla::ifrt::proxy::GrpcGetVersionRequest* request,
                                       xla::ifrt::proxy::GrpcGetVersionResponse* response) override;
  grpc::ServerBidiReactor<IfrtRequest, IfrtResponse>* IfrtSession(grpc::CallbackServerContext* context) override;
  grpc::ServerReadReactor<xla::ifrt::proxy::GrpcHostBufferStoreRequest>* HostBufferStore(
      grpc::CallbackServerContext* context, xla::ifrt::proxy::GrpcHostBufferStoreResponse* response) override;
  grpc::ServerWriteReactor<xla::ifrt::proxy::GrpcHostBufferLookupResponse>* HostBufferLookup(
      grpc::CallbackServerContext* context, const xla::ifrt::proxy::GrpcHostBufferLookupRequest* request) override;
  grpc::ServerUnaryReactor* HostBufferDelete(grpc::CallbackServerContext* context,
                                             const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request,
                                             xla::ifrt::proxy::GrpcHostBufferDeleteResponse* response) override;
  grpc::ServerUnaryReactor* HostBufferReadFromDisk(
      grpc::CallbackServerContext* context, const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest* request,
      xla::ifrt::proxy::GrpcHostBufferReadFromDiskResponse* response) override;

 private:
  DoorContext& door_;
};

}  // namespace switchtower
