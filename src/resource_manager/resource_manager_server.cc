#include "resource_manager/resource_manager_server.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/net/host_port.h"
#include "base/status_macros.h"
#include "resource_manager/cluster_proto.h"
#include "resource_manager/server_impl.h"
#include "resource_manager/silence_watch.h"

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

}  // namespace

ResourceManagerServer::Impl::Impl(const ResourceManagerOptions& options)
    : options_(options),
      cluster_id_(fmt::format("{:016x}", RandomBits())),
      table_(options.cluster, RandomBits, EpochFloor()) {}

int ResourceManagerServer::Impl::heartbeat_interval_ms() const {
  return std::max(50, options_.heartbeat_timeout_ms / 5);
}

absl::Status ResourceManagerServer::Impl::Start() {
  const std::string address = HostPort(options_.bind, options_.port);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
  // A compressed message can be a thousand times as large in memory.
  for (auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
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
  SilenceWatch watch(timeout);
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.WaitFor(mutex_, std::chrono::milliseconds(heartbeat_interval_ms()));
    const Clock::time_point now = Clock::now();
    if (!watch.CanBlame(now)) {
      LogWarn("this resource manager stood still for a while: nobody counts as lost for having been silent meanwhile");
      continue;
    }
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
