#include "frontdoor/host_buffer_relay.h"

#include <string>
#include <utility>

#include "frontdoor/metadata_keys.h"

namespace switchtower {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT: messages of the service only

using Home = std::shared_ptr<const HomeDoor>;

// An upload. The client's call is finished with the home's status, so it ends after the home's.
class StoreRelay final : public grpc::ServerReadReactor<GrpcHostBufferStoreRequest> {
 public:
  StoreRelay(Home home, const grpc::CallbackServerContext& context, GrpcHostBufferStoreResponse* response)
      : home_(std::move(home)), upstream_(*this) {
    const auto& metadata = context.client_metadata();
    if (auto it = metadata.find(kStoreMetadataKey); it != metadata.end()) {
      upstream_context_.AddMetadata(kStoreMetadataKey, std::string(it->second.data(), it->second.size()));
    }
    home_->stub->async()->HostBufferStore(&upstream_context_, response, &upstream_);
    upstream_.AddHold();  // until the last write has begun
    upstream_.StartCall();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      upstream_.StartWrite(&request_);
    } else {
      upstream_.StartWritesDone();
      upstream_.RemoveHold();
    }
  }
  void OnCancel() override { upstream_context_.TryCancel(); }
  void OnDone() override { delete this; }

 private:
  class Upstream final : public grpc::ClientWriteReactor<GrpcHostBufferStoreRequest> {
   public:
    explicit Upstream(StoreRelay& relay) : relay_(relay) {}
    void OnWriteDone(bool ok) override {
      if (ok) {
        relay_.StartRead(&relay_.request_);
      } else {
        RemoveHold();
      }
    }
    void OnDone(const grpc::Status& status) override { relay_.Finish(status); }

   private:
    StoreRelay& relay_;
  };

  const Home home_;
  grpc::ClientContext upstream_context_;
  Upstream upstream_;
  GrpcHostBufferStoreRequest request_;  // with one of the two calls at a time
};

// A download.
class LookupRelay final : public grpc::ServerWriteReactor<GrpcHostBufferLookupResponse> {
 public:
  LookupRelay(Home home, const GrpcHostBufferLookupRequest* request) : home_(std::move(home)), upstream_(*this) {
    home_->stub->async()->HostBufferLookup(&upstream_context_, request, &upstream_);
    upstream_.AddHold();  // until the last read has begun
    upstream_.StartRead(&response_);
    upstream_.StartCall();
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      upstream_.StartRead(&response_);
    } else {
      upstream_context_.TryCancel();
      upstream_.RemoveHold();
    }
  }
  void OnCancel() override { upstream_context_.TryCancel(); }
  void OnDone() override { delete this; }

 private:
  class Upstream final : public grpc::ClientReadReactor<GrpcHostBufferLookupResponse> {
   public:
    explicit Upstream(LookupRelay& relay) : relay_(relay) {}
    void OnReadDone(bool ok) override {
      if (ok) {
        relay_.StartWrite(&relay_.response_);
      } else {
        RemoveHold();
      }
    }
    void OnDone(const grpc::Status& status) override { relay_.Finish(status); }

   private:
    LookupRelay& relay_;
  };

  const Home home_;
  grpc::ClientContext upstream_context_;
  Upstream upstream_;
  GrpcHostBufferLookupResponse response_;  // with one of the two calls at a time
};

// A call of one message each way. `start` begins it: (context, on_done).
template <typename Start>
grpc::ServerUnaryReactor* RelayUnary(grpc::CallbackServerContext* context, Start start) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  std::shared_ptr<grpc::ClientContext> upstream = grpc::ClientContext::FromCallbackServerContext(*context);
  grpc::ClientContext* raw = upstream.get();
  start(raw, [upstream, reactor](const grpc::Status& status) { reactor->Finish(status); });
  return reactor;
}

}  // namespace

grpc::ServerReadReactor<GrpcHostBufferStoreRequest>* RelayStore(Home home, grpc::CallbackServerContext* context,
                                                                GrpcHostBufferStoreResponse* response) {
  return new StoreRelay(std::move(home), *context, response);
}

grpc::ServerWriteReactor<GrpcHostBufferLookupResponse>* RelayLookup(Home home,
                                                                    const GrpcHostBufferLookupRequest* request) {
  return new LookupRelay(std::move(home), request);
}

grpc::ServerUnaryReactor* RelayDelete(Home home, grpc::CallbackServerContext* context,
                                      const GrpcHostBufferDeleteRequest* request,
                                      GrpcHostBufferDeleteResponse* response) {
  return RelayUnary(context, [&](grpc::ClientContext* upstream, auto done) {
    home->stub->async()->HostBufferDelete(upstream, request, response,
                                          [home, done](grpc::Status status) { done(status); });
  });
}

grpc::ServerUnaryReactor* RelayReadFromDisk(Home home, grpc::CallbackServerContext* context,
                                            const GrpcHostBufferReadFromDiskRequest* request,
                                            GrpcHostBufferReadFromDiskResponse* response) {
  return RelayUnary(context, [&](grpc::ClientContext* upstream, auto done) {
    home->stub->async()->HostBufferReadFromDisk(upstream, request, response,
                                                [home, done](grpc::Status status) { done(status); });
  });
}

}  // namespace switchtower
