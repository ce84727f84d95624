#include "frontdoor/ifrt_service.h"

#include "base/log.h"
#include "frontdoor/grpc_status.h"
#include "frontdoor/host_buffer_relay.h"
#include "frontdoor/host_buffer_rpcs.h"

namespace switchtower {
namespace {

ProxyVersion FromProto(const xla::ifrt::proxy::IfrtProxyVersion& proto) {
  return {proto.protocol_version(), proto.ifrt_serdes_version_number()};
}

}  // namespace

grpc::ServerUnaryReactor* IfrtService::GetVersion(grpc::CallbackServerContext* context,
                                                  const xla::ifrt::proxy::GrpcGetVersionRequest* request,
                                                  xla::ifrt::proxy::GrpcGetVersionResponse* response) {
  auto version =
      NegotiateVersion(FromProto(request->min_version()), FromProto(request->max_version()), door_.protocol_max);
  if (version.ok()) {
    response->mutable_version()->set_protocol_version(version->protocol);
    response->mutable_version()->set_ifrt_serdes_version_number(version->serdes);
  } else {
    LogWarn("client {} refused: {}", context->peer(), std::string(version.status().message()));
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(version.status()));
  return reactor;
}

grpc::ServerBidiReactor<IfrtRequest, IfrtResponse>* IfrtService::IfrtSession(grpc::CallbackServerContext* context) {
  return SessionStream::Create(door_, context);
}

grpc::ServerReadReactor<xla::ifrt::proxy::GrpcHostBufferStoreRequest>* IfrtService::HostBufferStore(
    grpc::CallbackServerContext* context, xla::ifrt::proxy::GrpcHostBufferStoreResponse* response) {
  const auto metadata = StoreMetadata(*context);
  if (auto home = door_.relays.FindByBuffers(metadata.ok() ? metadata->session_id() : 0)) {
    return RelayStore(std::move(home), context, response);
  }
  return StoreHostBuffer(door_.registry, context);
}

grpc::ServerWriteReactor<xla::ifrt::proxy::GrpcHostBufferLookupResponse>* IfrtService::HostBufferLookup(
    grpc::CallbackServerContext* context, const xla::ifrt::proxy::GrpcHostBufferLookupRequest* request) {
  if (auto home = door_.relays.FindByBuffers(request->session_id())) return RelayLookup(std::move(home), request);
  return LookupHostBuffer(door_.registry, *request);
}

grpc::ServerUnaryReactor* IfrtService::HostBufferDelete(grpc::CallbackServerContext* context,
                                                        const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request,
                                                        xla::ifrt::proxy::GrpcHostBufferDeleteResponse* response) {
  if (auto home = door_.relays.FindByBuffers(request->session_id())) {
    return RelayDelete(std::move(home), context, request, response);
  }
  return DeleteHostBuffer(door_.registry, context, *request);
}

grpc::ServerUnaryReactor* IfrtService::HostBufferReadFromDisk(
    grpc::CallbackServerContext* context, const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest* request,
    xla::ifrt::proxy::GrpcHostBufferReadFromDiskResponse* response) {
  if (auto home = door_.relays.FindByBuffers(request->metadata().session_id())) {
    return RelayReadFromDisk(std::move(home), context, request, response);
  }
  return ReadHostBufferFromDisk(door_, context, *request);
}

}  // namespace switchtower
