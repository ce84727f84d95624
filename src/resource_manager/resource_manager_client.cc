#include "resource_manager/resource_manager_client.h"

#include <future>
#include <map>

#include "base/status_macros.h"
#include "resource_manager/client_stream.h"
#include "resource_manager/cluster_proto.h"

namespace switchtower {

class ResourceManagerClient::Impl {
 public:
  absl::Status Connect(const std::string& address, std::chrono::milliseconds timeout,
                       absl::AnyInvocable<void(absl::Status)> on_lost) {
    ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, DialResourceManager(address, timeout));
    stub_ = ResourceManagerService::NewStub(channel);
    on_lost_ = std::move(on_lost);
    stream_.Start([this](grpc::ClientContext* context) { return stub_->Proxy(context); },
                  [this](const ProxyReply& reply) { Handle(reply); },
                  [this](absl::Status status) { Lost(std::move(status)); });
    ProxyCall hello;
    hello.mutable_hello()->set_protocol_version(kResourceManagerProtocol);
    stream_.Write(hello);
    std::future<absl::Status> welcome = welcome_.get_future();
    if (welcome.wait_for(timeout) != std::future_status::ready) {
      return absl::DeadlineExceededError(fmt::format("the resource manager at {} doesn't answer", address));
    }
    return welcome.get();
  }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;  // the end that follows is our own
    }
    stream_.Stop();
  }
  const std::string& cluster_id() const { return cluster_id_; }

  absl::StatusOr<std::vector<SliceInfo>> Slices() {
    ProxyCall call;
    const uint64_t id = NewRequest();
    call.set_list_slices_request_id(id);
    ASSIGN_OR_RETURN(ProxyReply reply, Ask(id, call, nullptr));
    std::vector<SliceInfo> slices;
    for (const SliceProto& proto : reply.slices().slices()) {
      ASSIGN_OR_RETURN(SliceInfo slice, Decode(proto));
      slices.push_back(std::move(slice));
    }
    return slices;
  }

  absl::StatusOr<LeaseId> Acquire(const LeaseRequest& request, Watch on_change) {
    ProxyCall call;
    const uint64_t id = NewRequest();
    call.mutable_acquire()->set_request_id(id);
    call.mutable_acquire()->set_owner(request.owner);
    for (const SliceRequest& slice : request.slices) call.mutable_acquire()->add_slice_types(slice.type);
    ASSIGN_OR_RETURN(ProxyReply reply, Ask(id, call, std::move(on_change)));
    if (reply.lease().has_error()) return Decode(reply.lease().error());
    return reply.lease().lease_id();
  }

  void Release(LeaseId lease) {
    {
      MutexLock lock(mutex_);
      watches_.erase(lease);
    }
    ProxyCall call;
    call.set_release_lease_id(lease);
    stream_.Write(call);
  }

  void ReportUnreachable(WorkerId worker) {
    ProxyCall call;
    call.set_unreachable_worker_id(worker.value);
    stream_.Write(call);
  }

 private:
  struct Request {
    std::promise<absl::StatusOr<ProxyReply>> reply;
    Watch on_change;
  };

  uint64_t NewRequest() {
    MutexLock lock(mutex_);
    return ++last_request_;
  }

  absl::StatusOr<ProxyReply> Ask(uint64_t id, const ProxyCall& call, Watch on_change) {
    std::future<absl::StatusOr<ProxyReply>> reply;
    {
      MutexLock lock(mutex_);
      if (!lost_.ok()) return lost_;
      Request& request = requests_[id];
      request.on_change = std::move(on_change);
      reply = request.reply.get_future();
    }
    stream_.Write(call);
    return reply.get();  // ends with the stream at the latest
  }

  void Handle(const ProxyReply& reply) {
    switch (reply.reply_case()) {
      case ProxyReply::kAccepted: {
        if (!cluster_id_.empty()) return;
        cluster_id_ = reply.accepted().cluster_id();
        ProxyCall beat;
        beat.mutable_heartbeat();
        stream_.StartHeartbeat(reply.accepted().heartbeat_interval_ms(), beat);
        welcomed_ = true;
        return welcome_.set_value(absl::OkStatus());
      }
      case ProxyReply::kRejected:
        if (welcomed_) return;
        welcomed_ = true;
        return welcome_.set_value(Decode(reply.rejected()));
      case ProxyReply::kLease:
        return Answer(reply.lease().request_id(), reply);
      case ProxyReply::kSlices:
        return Answer(reply.slices().request_id(), reply);
      case ProxyReply::kState:
        return Changed(reply.state());
      case ProxyReply::REPLY_NOT_SET:
        return;
    }
  }

  void Answer(uint64_t id, const ProxyReply& reply) {
    Request request;
    {
      MutexLock lock(mutex_);
      auto it = requests_.find(id);
      if (it == requests_.end()) return;
      request = std::move(it->second);
      requests_.erase(it);
      if (reply.has_lease() && !reply.lease().has_error() && request.on_change) {
        watches_[reply.lease().lease_id()] = std::make_shared<Watch>(std::move(request.on_change));
      }
    }
    request.reply.set_value(reply);
  }

  void Changed(const LeaseStateProto& proto) {
    const absl::StatusOr<LeaseState> state = Decode(proto);
    if (!state.ok()) return LogError("a lease's state can't be read: {}", state.status().ToString());
    std::shared_ptr<Watch> watch;
    {
      MutexLock lock(mutex_);
      auto it = watches_.find(state->id);
      if (it == watches_.end()) return;
      watch = it->second;
    }
    (*watch)(*state);
  }

  void Lost(absl::Status status) {
    std::map<uint64_t, Request> requests;
    bool expected;
    {
      MutexLock lock(mutex_);
      lost_ = status;
      expected = stopping_;
      requests.swap(requests_);
    }
    for (auto& [id, request] : requests) request.reply.set_value(status);
    if (!welcomed_) {
      welcomed_ = true;
      welcome_.set_value(status);
    } else if (on_lost_ && !expected) {
      on_lost_(status);
    }
  }

  std::unique_ptr<ResourceManagerService::Stub> stub_;
  absl::AnyInvocable<void(absl::Status)> on_lost_;
  std::promise<absl::Status> welcome_;
  bool welcomed_ = false;  // reader thread
  std::string cluster_id_;
  Mutex mutex_;
  uint64_t last_request_ GUARDED_BY(mutex_) = 0;
  absl::Status lost_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Request> requests_ GUARDED_BY(mutex_);
  std::map<LeaseId, std::shared_ptr<Watch>> watches_ GUARDED_BY(mutex_);
  ClientStream<ProxyCall, ProxyReply> stream_;  // last: its threads use the above
};

ResourceManagerClient::ResourceManagerClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResourceManagerClient::~ResourceManagerClient() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<ResourceManagerClient>> ResourceManagerClient::Connect(
    const std::string& address, std::chrono::milliseconds timeout, absl::AnyInvocable<void(absl::Status)> on_lost) {
  auto impl = std::make_unique<Impl>();
  const absl::Status status = impl->Connect(address, timeout, std::move(on_lost));
  if (!status.ok()) {
    impl->Stop();
    return status;
  }
  return std::unique_ptr<ResourceManagerClient>(new ResourceManagerClient(std::move(impl)));
}

const std::string& ResourceManagerClient::cluster_id() const { return impl_->cluster_id(); }
absl::StatusOr<std::vector<SliceInfo>> ResourceManagerClient::Slices() { return impl_->Slices(); }
absl::StatusOr<LeaseId> ResourceManagerClient::Acquire(const LeaseRequest& request, Watch on_change) {
  return impl_->Acquire(request, std::move(on_change));
}
void ResourceManagerClient::Release(LeaseId lease) { impl_->Release(lease); }
void ResourceManagerClient::ReportUnreachable(WorkerId worker) { impl_->ReportUnreachable(worker); }

}  // namespace switchtower
