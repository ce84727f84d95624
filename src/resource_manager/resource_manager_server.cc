#include "resource_manager/resource_manager_server.h"

#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/net/host_port.h"
#include "base/status_macros.h"
#include "resource_manager/cluster_proto.h"
#include "resource_manager/server_stream.h"
#include "switchtower/resource_manager_service.grpc.pb.h"

namespace switchtower {
namespace {

using Clock = std::chrono::steady_clock;

// What a worker may be commanded by is told as a whole each time.
constexpr uint64_t kGrantsNews = 1;

uint64_t RandomBits() {
  static std::random_device device;  // the system's generator: ids and secrets must be unguessable
  return (uint64_t{device()} << 32) | device();
}

uint64_t EpochFloor() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

using WorkerStreamBase = ServerStream<WorkerReport, WorkerOrder>;
using ProxyStreamBase = ServerStream<ProxyCall, ProxyReply>;

}  // namespace

class ResourceManagerServer::Impl : public ResourceManagerService::CallbackService {
 public:
  explicit Impl(const ResourceManagerOptions& options)
      : options_(options),
        cluster_id_(fmt::format("{:016x}", RandomBits())),
        table_(options.cluster, RandomBits, EpochFloor()) {}

  absl::Status Start();
  void Stop();
  int port() const { return port_; }

  grpc::ServerBidiReactor<WorkerReport, WorkerOrder>* Worker(grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<ProxyCall, ProxyReply>* Proxy(grpc::CallbackServerContext* context) override;

 private:
  class WorkerStream;
  class ProxyStream;

  int heartbeat_interval_ms() const { return std::max(50, options_.heartbeat_timeout_ms / 5); }
  void WatchHeartbeats();
  // Tells holders and workers about what changed.
  void Publish() REQUIRES(mutex_);
  void SendGrants(WorkerId worker) REQUIRES(mutex_);
  // To all workers of a lease that was granted or released.
  void SendGrants(const LeaseState& lease) REQUIRES(mutex_);

  const ResourceManagerOptions options_;
  const std::string cluster_id_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::thread watcher_;

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  ClusterTable table_ GUARDED_BY(mutex_);
  std::map<WorkerId, WorkerStream*> workers_ GUARDED_BY(mutex_);
  std::map<LeaseId, ProxyStream*> holders_ GUARDED_BY(mutex_);
  std::set<WorkerStream*> worker_streams_ GUARDED_BY(mutex_);
  std::set<ProxyStream*> proxy_streams_ GUARDED_BY(mutex_);
};

class ResourceManagerServer::Impl::WorkerStream : public WorkerStreamBase {
 public:
  WorkerStream(Impl& server, grpc::CallbackServerContext& context)
      : WorkerStreamBase(context), server_(server), peer_(context.peer()) {
    {
      MutexLock lock(server_.mutex_);
      server_.worker_streams_.insert(this);
    }
    BeginReading();
  }

  void OnDone() override {
    {
      MutexLock lock(server_.mutex_);
      server_.worker_streams_.erase(this);
      if (id_) {
        LogInfo("worker {} is gone: {} host {}", peer_, slice_, host_index_);
        server_.workers_.erase(*id_);
        server_.table_.Remove(*id_);
        server_.Publish();
      }
    }
    delete this;
  }

 private:
  void OnMessage(const WorkerReport& report) override {
    if (report.has_register_()) Register(report.register_());
  }

  void Register(const RegisterWorker& request) {
    absl::StatusOr<WorkerInfo> worker = absl::UnknownError("");
    {
      MutexLock lock(server_.mutex_);
      worker = Admit(request);
      if (worker.ok()) {
        id_ = worker->id;
        slice_ = worker->slice;
        host_index_ = worker->host_index;
        server_.workers_[worker->id] = this;
        WorkerOrder order;
        WorkerAccepted* accepted = order.mutable_accepted();
        accepted->set_worker_id(worker->id.value);
        accepted->set_cluster_id(server_.cluster_id_);
        accepted->set_slice(worker->slice);
        accepted->set_slice_number(worker->slice_number);
        accepted->set_host_index(worker->host_index);
        accepted->set_heartbeat_interval_ms(server_.heartbeat_interval_ms());
        Write(std::move(order));
        server_.SendGrants(worker->id);
        server_.Publish();
      }
    }
    if (worker.ok()) {
      LogInfo("worker {} joined: {} host {}, {} devices", peer_, slice_, host_index_, worker->num_devices);
      return;
    }
    LogWarn("worker {} refused: {}", peer_, worker.status().ToString());
    WorkerOrder order;
    Encode(worker.status(), order.mutable_rejected());
    Write(std::move(order));
    End();
  }

  absl::StatusOr<WorkerInfo> Admit(const RegisterWorker& request) {
    if (id_) return absl::FailedPreconditionError("the worker is registered already");
    if (request.protocol_version() != kResourceManagerProtocol) {
      return absl::FailedPreconditionError(
          fmt::format("the worker speaks protocol {}, this resource manager {}: install one version of switchtower on "
                      "all machines",
                      request.protocol_version(), kResourceManagerProtocol));
    }
    Registration registration;
    ASSIGN_OR_RETURN(registration.worker, Decode(request.worker()));
    registration.slice = request.slice();
    registration.host_index = request.host_index();
    registration.highest_epoch_seen = request.highest_epoch_seen();
    return server_.table_.Register(registration);
  }

  Impl& server_;
  const std::string peer_;
  std::optional<WorkerId> id_;
  std::string slice_;
  int host_index_ = 0;
};

class ResourceManagerServer::Impl::ProxyStream : public ProxyStreamBase {
 public:
  ProxyStream(Impl& server, grpc::CallbackServerContext& context)
      : ProxyStreamBase(context), server_(server), peer_(context.peer()) {
    {
      MutexLock lock(server_.mutex_);
      server_.proxy_streams_.insert(this);
    }
    BeginReading();
  }

  void OnDone() override {
    {
      MutexLock lock(server_.mutex_);
      server_.proxy_streams_.erase(this);
      for (LeaseId lease : leases_) ReleaseLocked(lease);
    }
    delete this;
  }

 private:
  void OnMessage(const ProxyCall& call) override {
    if (!greeted_ && !call.has_hello()) return Reject(absl::FailedPreconditionError("a proxy says hello first"));
    switch (call.call_case()) {
      case ProxyCall::kHello:
        return Hello(call.hello());
      case ProxyCall::kAcquire:
        return Acquire(call.acquire());
      case ProxyCall::kReleaseLeaseId: {
        MutexLock lock(server_.mutex_);
        if (leases_.erase(call.release_lease_id()) > 0) ReleaseLocked(call.release_lease_id());
        return;
      }
      case ProxyCall::kUnreachableWorkerId: {
        MutexLock lock(server_.mutex_);
        auto it = server_.workers_.find(WorkerId{call.unreachable_worker_id()});
        // The worker's own stream decides: a dead process has closed it or does so now.
        if (it != server_.workers_.end()) LogInfo("proxy {} can't reach worker {}", peer_, it->first.value);
        return;
      }
      case ProxyCall::kListSlicesRequestId: {
        ProxyReply reply;
        reply.mutable_slices()->set_request_id(call.list_slices_request_id());
        MutexLock lock(server_.mutex_);
        for (const SliceInfo& slice : server_.table_.Slices()) {
          Encode(slice, reply.mutable_slices()->add_slices());
          const std::optional<LeaseId> lease = server_.table_.HolderOf(slice);
          if (!lease) continue;
          const absl::StatusOr<LeaseState> state = server_.table_.State(*lease);
          SliceHomeProto* home = reply.mutable_slices()->add_homes();
          home->set_slice(slice.name);
          home->set_epoch(state->home_epoch);
          home->set_shared(!state->exclusive);
          home->set_door(server_.holders_.at(*lease)->door_);
        }
        return Write(std::move(reply));
      }
      case ProxyCall::kDoor: {
        MutexLock lock(server_.mutex_);
        door_ = call.door();
        return;
      }
      case ProxyCall::kHeartbeat:
      case ProxyCall::CALL_NOT_SET:
        return;
    }
  }

  void Reject(const absl::Status& why) {
    LogWarn("proxy {} refused: {}", peer_, std::string(why.message()));
    ProxyReply reply;
    Encode(why, reply.mutable_rejected());
    Write(std::move(reply));
    End();
  }

  void Hello(const ProxyHello& hello) {
    if (hello.protocol_version() != kResourceManagerProtocol) {
      return Reject(absl::FailedPreconditionError(
          fmt::format("the proxy speaks protocol {}, this resource manager {}: install one version of switchtower on "
                      "all machines",
                      hello.protocol_version(), kResourceManagerProtocol)));
    }
    greeted_ = true;
    ProxyReply reply;
    reply.mutable_accepted()->set_cluster_id(server_.cluster_id_);
    reply.mutable_accepted()->set_heartbeat_interval_ms(server_.heartbeat_interval_ms());
    Write(std::move(reply));
  }

  void Acquire(const AcquireLease& request) {
    LeaseRequest wanted;
    for (const std::string& type : request.slice_types()) wanted.slices.push_back({type});
    wanted.owner = fmt::format("{} ({})", request.owner(), peer_);
    ProxyReply reply;
    reply.mutable_lease()->set_request_id(request.request_id());
    MutexLock lock(server_.mutex_);
    const absl::StatusOr<LeaseId> lease = server_.table_.Acquire(wanted);
    if (!lease.ok()) {
      Encode(lease.status(), reply.mutable_lease()->mutable_error());
      const std::optional<LeaseId> home = wanted.slices.empty() ? server_.table_.SharedLease() : std::nullopt;
      if (home) reply.mutable_lease()->set_home_door(server_.holders_.at(*home)->door_);
      return Write(std::move(reply));
    }
    leases_.insert(*lease);
    server_.holders_[*lease] = this;
    reply.mutable_lease()->set_lease_id(*lease);
    Write(std::move(reply));
    server_.Publish();
    server_.SendGrants(*server_.table_.State(*lease));
    LogInfo("lease {:x} granted to {}", *lease, wanted.owner);
  }

  void ReleaseLocked(LeaseId lease) {
    const absl::StatusOr<LeaseState> state = server_.table_.State(lease);
    server_.table_.Release(lease);
    server_.holders_.erase(lease);
    LogInfo("lease {:x} released by {}", lease, peer_);
    if (state.ok()) server_.SendGrants(*state);
  }

  Impl& server_;
  const std::string peer_;
  bool greeted_ = false;      // OnMessage alone
  std::set<LeaseId> leases_;  // guarded by server_.mutex_
  std::string door_;          // guarded by server_.mutex_
};

absl::Status ResourceManagerServer::Impl::Start() {
  const std::string address = HostPort(options_.bind, options_.port);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    return absl::FailedPreconditionError(
        fmt::format("can't listen on {}: the port is in use or the address isn't this machine's; choose another with "
                    "--server_port (0 picks a free one)",
                    address));
  }
  watcher_ = std::thread([this] { WatchHeartbeats(); });
  return absl::OkStatus();
}

void ResourceManagerServer::Impl::Stop() {
  {
    MutexLock lock(mutex_);
    if (stopping_ || server_ == nullptr) return;
    stopping_ = true;
    for (WorkerStream* stream : worker_streams_) stream->End();
    for (ProxyStream* stream : proxy_streams_) stream->End();
  }
  wake_.NotifyAll();
  watcher_.join();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  server_->Wait();
}

void ResourceManagerServer::Impl::WatchHeartbeats() {
  const auto timeout = std::chrono::milliseconds(options_.heartbeat_timeout_ms);
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.WaitFor(mutex_, std::chrono::milliseconds(heartbeat_interval_ms()));
    const Clock::time_point now = Clock::now();
    const auto end_if_silent = [&](auto* stream, const char* what) {
      const Clock::duration silence = now - stream->last_heard();
      if (silence <= timeout) return;
      if (!stream->ending()) {
        LogWarn("a {} was silent for over {} ms and counts as lost", what, options_.heartbeat_timeout_ms);
        stream->End();
      } else if (silence > 2 * timeout) {
        stream->Abort();  // it takes nothing, not even its end
      }
    };
    for (WorkerStream* stream : worker_streams_) end_if_silent(stream, "worker");
    for (ProxyStream* stream : proxy_streams_) end_if_silent(stream, "proxy");
  }
}

void ResourceManagerServer::Impl::Publish() {
  for (LeaseId lease : table_.TakeChanged()) {
    auto holder = holders_.find(lease);
    if (holder == holders_.end()) continue;
    ProxyReply reply;
    Encode(*table_.State(lease), reply.mutable_state());
    holder->second->Write(std::move(reply), lease);
  }
}

void ResourceManagerServer::Impl::SendGrants(WorkerId worker) {
  auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  WorkerOrder order;
  order.mutable_grants();
  for (const LeaseState& lease : table_.GrantsOf(worker)) {
    Grants::Grant* grant = order.mutable_grants()->add_grants();
    grant->set_lease_id(lease.id);
    grant->set_secret(lease.secret);
    grant->set_epoch(lease.home_epoch);
  }
  it->second->Write(std::move(order), kGrantsNews);
}

void ResourceManagerServer::Impl::SendGrants(const LeaseState& lease) {
  for (const SliceInfo& slice : lease.slices) {
    for (const WorkerInfo& worker : slice.workers) SendGrants(worker.id);
  }
}

grpc::ServerBidiReactor<WorkerReport, WorkerOrder>* ResourceManagerServer::Impl::Worker(
    grpc::CallbackServerContext* context) {
  return new WorkerStream(*this, *context);
}

grpc::ServerBidiReactor<ProxyCall, ProxyReply>* ResourceManagerServer::Impl::Proxy(
    grpc::CallbackServerContext* context) {
  return new ProxyStream(*this, *context);
}

ResourceManagerServer::ResourceManagerServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResourceManagerServer::~ResourceManagerServer() { Stop(); }
int ResourceManagerServer::port() const { return impl_->port(); }
void ResourceManagerServer::Stop() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<ResourceManagerServer>> ResourceManagerServer::Start(
    const ResourceManagerOptions& options) {
  RETURN_IF_ERROR(ClusterTable::Validate(options.cluster));
  auto impl = std::make_unique<Impl>(options);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ResourceManagerServer>(new ResourceManagerServer(std::move(impl)));
}

}  // namespace switchtower
