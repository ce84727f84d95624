#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "resource_manager/cluster_proto.h"
#include "resource_manager/server_impl.h"

namespace switchtower {

ResourceManagerServer::Impl::ProxyStream::ProxyStream(Impl& server, grpc::CallbackServerContext& context)
    : ServerStream(context), server_(server), peer_(context.peer()) {
  {
    MutexLock lock(server_.mutex_);
    server_.proxy_streams_.insert(this);
  }
  BeginReading();
}

void ResourceManagerServer::Impl::ProxyStream::OnDone() {
  {
    MutexLock lock(server_.mutex_);
    server_.proxy_streams_.erase(this);
    for (LeaseId lease : leases_) Release(lease);
  }
  delete this;
}

void ResourceManagerServer::Impl::ProxyStream::OnMessage(const ProxyCall& call) {
  if (!greeted_ && !call.has_hello()) return Reject(absl::FailedPreconditionError("a proxy says hello first"));
  switch (call.call_case()) {
    case ProxyCall::kHello:
      return Hello(call.hello());
    case ProxyCall::kAcquire:
      return Acquire(call.acquire());
    case ProxyCall::kReleaseLeaseId: {
      MutexLock lock(server_.mutex_);
      if (leases_.erase(call.release_lease_id()) > 0) Release(call.release_lease_id());
      return;
    }
    case ProxyCall::kUnreachableWorkerId: {
      MutexLock lock(server_.mutex_);
      auto it = server_.workers_.find(WorkerId{call.unreachable_worker_id()});
      // The worker's own stream decides: a dead process has closed it or does so now.
      if (it != server_.workers_.end()) LogInfo("proxy {} can't reach worker {}", peer_, it->first.value);
      return;
    }
    case ProxyCall::kListSlicesRequestId:
      return ListSlices(call.list_slices_request_id());
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

void ResourceManagerServer::Impl::ProxyStream::ListSlices(uint64_t request_id) {
  ProxyReply reply;
  reply.mutable_slices()->set_request_id(request_id);
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
    home->set_door(server_.holders_.at(*lease)->door());
  }
  Write(std::move(reply));
}

void ResourceManagerServer::Impl::ProxyStream::Reject(const absl::Status& why) {
  LogWarn("proxy {} refused: {}", peer_, std::string(why.message()));
  ProxyReply reply;
  Encode(why, reply.mutable_rejected());
  Write(std::move(reply));
  End();
}

void ResourceManagerServer::Impl::ProxyStream::Hello(const ProxyHello& hello) {
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

void ResourceManagerServer::Impl::ProxyStream::Acquire(const AcquireLease& request) {
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
    if (home) reply.mutable_lease()->set_home_door(server_.holders_.at(*home)->door());
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

void ResourceManagerServer::Impl::ProxyStream::Release(LeaseId lease) {
  const absl::StatusOr<LeaseState> state = server_.table_.State(lease);
  server_.table_.Release(lease);
  server_.holders_.erase(lease);
  LogInfo("lease {:x} released by {}", lease, peer_);
  if (state.ok()) server_.SendGrants(*state);
}

}  // namespace switchtower
