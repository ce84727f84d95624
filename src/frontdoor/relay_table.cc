#include "frontdoor/relay_table.h"

#include <utility>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "base/status_macros.h"
#include "base/strand.h"

namespace switchtower {

namespace {

// Calls tell their end on threads that gRPC keeps while the process has such calls' channels. The last reference to a
// door is mostly let go there, and if its channel is the process' last one, gRPC would end the thread that it is on.
void LetGo(const HomeDoor* door) {
  static auto& closer = *new ThreadPool("door-closer", 1);
  closer.Post([door] { delete door; });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const HomeDoor>> HomeDoor::Create(const std::string& address) {
  const std::shared_ptr<HomeDoor> door(new HomeDoor, LetGo);
  door->name = address;
  ASSIGN_OR_RETURN(door->address, Address::Parse(address));
  if (door->address.is_unix()) {
    return absl::InvalidArgumentError(fmt::format("a proxy can't be reached at {}: that isn't host:port", address));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("grpc.enable_http_proxy", 0);
  // A machine that vanishes, or a process that stands still, closes no connection.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  door->stub = xla::ifrt::proxy::GrpcIfrtService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  return door;
}

bool RelayTable::Add(uint64_t session, uint64_t buffers, std::string peer, std::shared_ptr<const HomeDoor> home) {
  MutexLock lock(mutex_);
  if (sessions_.contains(session) || !by_buffers_.try_emplace(buffers, session).second) return false;
  sessions_.emplace(session, Entry{buffers, std::move(peer), std::move(home)});
  return true;
}

void RelayTable::Remove(uint64_t session) {
  Entry removed;  // destroyed without the lock
  MutexLock lock(mutex_);
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  removed = std::move(it->second);
  sessions_.erase(it);
  by_buffers_.erase(removed.buffers);
}

std::shared_ptr<const HomeDoor> RelayTable::Find(uint64_t session) const {
  MutexLock lock(mutex_);
  auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : it->second.home;
}

std::shared_ptr<const HomeDoor> RelayTable::FindByBuffers(uint64_t buffers) const {
  MutexLock lock(mutex_);
  auto it = by_buffers_.find(buffers);
  return it == by_buffers_.end() ? nullptr : sessions_.at(it->second).home;
}

size_t RelayTable::size() const {
  MutexLock lock(mutex_);
  return sessions_.size();
}

std::vector<RelayedSession> RelayTable::List() const {
  MutexLock lock(mutex_);
  std::vector<RelayedSession> sessions;
  for (const auto& [id, entry] : sessions_) {
    sessions.push_back({SessionId{id}, entry.peer, entry.home->name});
  }
  return sessions;
}

}  // namespace switchtower
