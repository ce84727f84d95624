#include "resource_manager/resource_manager_client.h"

#include <future>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "resource_manager/client_stream.h"
#include "resource_manager/cluster_proto.h"
#include "types/home_door.h"

namespace switchtower {

class ResourceManagerClient::Impl {
 public:
  explicit Impl(const AnswerPatience& patience) : patience_(patience) {}

  absl::Status Connect(const std::string& address, std::chrono::milliseconds timeout) {
    address_ = address;
    RETURN_IF_ERROR(Join(timeout));
    keeper_ = std::thread([this] { Keep(); });
    return absl::OkStatus();
  }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;  // the end that follows is our own
    }
    changed_.NotifyAll();
    if (keeper_.joinable()) keeper_.join();
    TakeLink();
  }

  void WatchLosses(absl::AnyInvocable<void(const absl::Status&)> on_lost) {
    MutexLock lock(losses_mutex_);
    on_lost_ = std::move(on_lost);
    if (on_lost_ && !untold_.ok()) on_lost_(std::exchange(untold_, absl::OkStatus()));
  }

  std::string cluster_id() const {
    MutexLock lock(mutex_);
    return cluster_id_;
  }

  absl::StatusOr<std::vector<SliceHome>> Homes() {
    ASSIGN_OR_RETURN(ProxyReply reply, AskForSlices());
    std::vector<SliceHome> homes;
    for (const SliceHomeProto& home : reply.slices().homes()) {
      homes.push_back({home.slice(), home.epoch(), home.shared(), home.door()});
    }
    return homes;
  }

  absl::StatusOr<std::vector<SliceInfo>> Slices() {
    ASSIGN_OR_RETURN(ProxyReply reply, AskForSlices());
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
    ASSIGN_OR_RETURN(ProxyReply reply, Ask(id, call, std::move(on_change), patience_.for_leases));
    if (reply.lease().has_error()) return WithHomeDoor(Decode(reply.lease().error()), reply.lease().home_door());
    return reply.lease().lease_id();
  }

  void Release(LeaseId lease) {
    {
      MutexLock lock(mutex_);
      watches_.erase(lease);
    }
    ProxyCall call;
    call.set_release_lease_id(lease);
    Write(call);
  }

  void AnnounceDoor(const std::string& address) {
    {
      MutexLock lock(mutex_);
      door_ = address;
    }
    Write(DoorCall(address));
  }

  void ReportUnreachable(WorkerId worker) {
    ProxyCall call;
    call.set_unreachable_worker_id(worker.value);
    Write(call);
  }

 private:
  struct Request {
    std::promise<absl::StatusOr<ProxyReply>> reply;
    Watch on_change;
  };
  struct Link {
    std::unique_ptr<ResourceManagerService::Stub> stub;
    std::promise<absl::Status> welcome;
    bool answered = false;                       // the hello was; reader thread
    bool ended = false;                          // guarded by mutex_
    ClientStream<ProxyCall, ProxyReply> stream;  // last: its threads use the above
  };

  // Connects and says hello.
  absl::Status Join(std::chrono::milliseconds timeout) {
    ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, DialResourceManager(address_, timeout));
    auto link = std::make_shared<Link>();
    link->stub = ResourceManagerService::NewStub(channel);
    Link* raw = link.get();  // its threads end before it does
    link->stream.Start(
        [raw](grpc::ClientContext* context, auto* reactor) { raw->stub->async()->Proxy(context, reactor); },
        [this, raw](const ProxyReply& reply) { Handle(*raw, reply); },
        [this, raw](absl::Status status) { Ended(*raw, status); });
    ProxyCall hello;
    hello.mutable_hello()->set_protocol_version(kResourceManagerProtocol);
    link->stream.Write(hello);
    std::future<absl::Status> welcome = link->welcome.get_future();
    if (welcome.wait_for(timeout) != std::future_status::ready) {
      return absl::DeadlineExceededError(fmt::format("the resource manager at {} doesn't answer", address_));
    }
    RETURN_IF_ERROR(welcome.get());
    MutexLock lock(mutex_);
    if (link->ended) return absl::UnavailableError("the connection to the resource manager ended at once");
    if (!door_.empty()) link->stream.Write(DoorCall(door_));  // before any lease is asked for
    link_ = std::move(link);
    return absl::OkStatus();
  }

  // Runs until this client stops.
  void Keep() {
    NameThread("rm-keeper");
    constexpr std::chrono::seconds kPatience(1);  // Stop waits as long
    std::string last_word;
    while (WaitUntilLost()) {
      TakeLink();  // its reader has told all that was lost
      const absl::Status status = Join(kPatience);
      const std::string word(status.message());
      if (status.ok()) {
        LogInfo("the resource manager at {} is there again", address_);
      } else if (word != last_word) {
        LogWarn("{}; this proxy keeps trying", word);
      }
      last_word = word;
      if (!status.ok()) Pause(kPatience);
    }
  }
  // False if this client stops.
  bool WaitUntilLost() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!stopping_ && link_ != nullptr && !link_->ended) changed_.Wait(mutex_);
    return !stopping_;
  }
  void Pause(std::chrono::milliseconds time) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!stopping_) changed_.WaitFor(mutex_, time);
  }
  // Ends the link, if there is one, and waits for its threads. Not on one of them.
  void TakeLink() EXCLUDES(mutex_) {
    std::shared_ptr<Link> link;  // destroyed without the lock, which its reader takes
    {
      MutexLock lock(mutex_);
      link = std::move(link_);
    }
    if (link != nullptr) link->stream.Stop();
  }

  static ProxyCall DoorCall(const std::string& address) {
    ProxyCall call;
    call.set_door(address);
    return call;
  }

  uint64_t NewRequest() {
    MutexLock lock(mutex_);
    return ++last_request_;
  }

  absl::StatusOr<ProxyReply> AskForSlices() {
    ProxyCall call;
    const uint64_t id = NewRequest();
    call.set_list_slices_request_id(id);
    return Ask(id, call, nullptr, patience_.for_lists);
  }
  absl::StatusOr<ProxyReply> Ask(uint64_t id, const ProxyCall& call, Watch on_change,
                                 std::chrono::milliseconds patience) {
    std::shared_ptr<Link> link;
    std::future<absl::StatusOr<ProxyReply>> reply;
    {
      MutexLock lock(mutex_);
      if (link_ == nullptr || link_->ended) {
        return absl::UnavailableError(fmt::format(
            "the resource manager at {} can't be reached at the moment; this proxy keeps trying: try again", address_));
      }
      Request& request = requests_[id];
      request.on_change = std::move(on_change);
      reply = request.reply.get_future();
      link = link_;
    }
    link->stream.Write(call);
    if (reply.wait_for(patience) == std::future_status::timeout) {
      MutexLock lock(mutex_);
      if (requests_.erase(id) > 0) {
        return absl::DeadlineExceededError(
            fmt::format("the resource manager at {} has said nothing for {} s: its process is stopped, its host is "
                        "gone, or the network is",
                        address_, patience.count() / 1000.0));
      }
    }
    return reply.get();  // ends with the stream at the latest
  }
  // What nobody is told about goes with the link, if that has ended.
  void Write(const ProxyCall& call) {
    std::shared_ptr<Link> link;
    {
      MutexLock lock(mutex_);
      link = link_;
    }
    if (link != nullptr) link->stream.Write(call);
  }

  void Handle(Link& link, const ProxyReply& reply) {
    switch (reply.reply_case()) {
      case ProxyReply::kAccepted: {
        if (std::exchange(link.answered, true)) return;
        {
          MutexLock lock(mutex_);
          cluster_id_ = reply.accepted().cluster_id();
        }
        ProxyCall beat;
        beat.mutable_heartbeat();
        link.stream.StartHeartbeat(reply.accepted().heartbeat_interval_ms(), beat);
        return link.welcome.set_value(absl::OkStatus());
      }
      case ProxyReply::kRejected:
        if (std::exchange(link.answered, true)) return;
        return link.welcome.set_value(Decode(reply.rejected()));
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
    const bool granted = reply.has_lease() && !reply.lease().has_error();
    std::optional<Request> request;
    {
      MutexLock lock(mutex_);
      auto it = requests_.find(id);
      if (it != requests_.end()) {
        request = std::move(it->second);
        requests_.erase(it);
        if (granted && request->on_change) {
          watches_[reply.lease().lease_id()] = std::make_shared<Watch>(std::move(request->on_change));
        }
      }
    }
    if (request.has_value()) {
      request->reply.set_value(reply);
    } else if (granted) {
      Release(reply.lease().lease_id());  // it came too late for who asked
    }
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

  void Ended(Link& link, const absl::Status& status) {
    std::map<uint64_t, Request> requests;
    bool expected;
    {
      MutexLock lock(mutex_);
      link.ended = true;
      expected = stopping_;
      requests.swap(requests_);
      watches_.clear();
    }
    for (auto& [id, request] : requests) request.reply.set_value(status);
    if (!std::exchange(link.answered, true)) {
      link.welcome.set_value(status);
    } else if (!expected) {
      LogError("{}", std::string(status.message()));
      MutexLock lock(losses_mutex_);
      if (on_lost_) {
        on_lost_(status);
      } else {
        untold_ = status;
      }
    }
    changed_.NotifyAll();
  }

  const AnswerPatience patience_;
  std::string address_;
  std::thread keeper_;
  Mutex losses_mutex_;  // held while `on_lost` runs
  absl::AnyInvocable<void(const absl::Status&)> on_lost_ GUARDED_BY(losses_mutex_);
  absl::Status untold_ GUARDED_BY(losses_mutex_);
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Link> link_ GUARDED_BY(mutex_);
  std::string cluster_id_ GUARDED_BY(mutex_);
  std::string door_ GUARDED_BY(mutex_);
  uint64_t last_request_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Request> requests_ GUARDED_BY(mutex_);
  std::map<LeaseId, std::shared_ptr<Watch>> watches_ GUARDED_BY(mutex_);
};

ResourceManagerClient::ResourceManagerClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResourceManagerClient::~ResourceManagerClient() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<ResourceManagerClient>> ResourceManagerClient::Connect(const std::string& address,
                                                                                      std::chrono::milliseconds timeout,
                                                                                      const AnswerPatience& patience) {
  auto impl = std::make_unique<Impl>(patience);
  const absl::Status status = impl->Connect(address, timeout);
  if (!status.ok()) {
    impl->Stop();
    return status;
  }
  return std::unique_ptr<ResourceManagerClient>(new ResourceManagerClient(std::move(impl)));
}

void ResourceManagerClient::WatchLosses(absl::AnyInvocable<void(const absl::Status&)> on_lost) {
  impl_->WatchLosses(std::move(on_lost));
}
std::string ResourceManagerClient::cluster_id() const { return impl_->cluster_id(); }
absl::StatusOr<std::vector<SliceHome>> ResourceManagerClient::Homes() { return impl_->Homes(); }
absl::StatusOr<std::vector<SliceInfo>> ResourceManagerClient::Slices() { return impl_->Slices(); }
absl::StatusOr<LeaseId> ResourceManagerClient::Acquire(const LeaseRequest& request, Watch on_change) {
  return impl_->Acquire(request, std::move(on_change));
}
void ResourceManagerClient::Release(LeaseId lease) { impl_->Release(lease); }
void ResourceManagerClient::AnnounceDoor(const std::string& address) { impl_->AnnounceDoor(address); }
void ResourceManagerClient::ReportUnreachable(WorkerId worker) { impl_->ReportUnreachable(worker); }

}  // namespace switchtower
