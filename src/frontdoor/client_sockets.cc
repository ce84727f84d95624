#include "frontdoor/client_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include <fmt/format.h>

namespace switchtower {

std::string PeerOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  char host[INET6_ADDRSTRLEN];
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return fmt::format("ipv4:{}:{}", inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host)), ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    const void* v4 = &v6.sin6_addr.s6_addr[12];
    return fmt::format("ipv4:{}:{}", inet_ntop(AF_INET, v4, host, sizeof(host)), ntohs(v6.sin6_port));
  }
  return fmt::format("ipv6:%5B{}%5D:{}", inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host)), ntohs(v6.sin6_port));
}

// Wakes for the connection's end only.
class ClientSockets::Watched : private EventLoop::FdHandler {
 public:
  Watched(ClientSockets& sockets, std::string peer, UniqueFd socket)
      : sockets_(sockets), peer_(std::move(peer)), fd_(socket.get()) {
    socket_ = std::make_shared<ClientSocket>(sockets.loop_, std::move(socket));
  }
  ~Watched() override { sockets_.loop_.Remove(registration_); }

  bool Watch() {
    auto registration = sockets_.loop_.Add(fd_, EPOLLRDHUP, this);
    if (registration.ok()) registration_ = *registration;
    return registration.ok();
  }
  const std::shared_ptr<ClientSocket>& socket() const { return socket_; }

 private:
  void OnReady(uint32_t) override { sockets_.Remove(std::string(peer_)); }  // this is gone

  ClientSockets& sockets_;
  const std::string peer_;
  const int fd_;  // socket_'s
  std::shared_ptr<ClientSocket> socket_;
  EventLoop::Registration registration_;
};

ClientSockets::ClientSockets(EventLoop& loop) : loop_(loop) {}

ClientSockets::~ClientSockets() = default;

void ClientSockets::Add(int socket) {
  std::string peer = PeerOf(socket);
  UniqueFd own(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (peer.empty() || !own.valid()) return;
  auto watched = std::make_unique<Watched>(*this, peer, std::move(own));
  if (!watched->Watch()) return;
  Remove(peer);  // the port may be used anew before the end of its last connection was seen
  MutexLock lock(mutex_);
  sockets_.emplace(std::move(peer), std::move(watched));
}

std::shared_ptr<ClientSocket> ClientSockets::Find(const std::string& peer) const {
  MutexLock lock(mutex_);
  auto it = sockets_.find(peer);
  return it == sockets_.end() ? nullptr : it->second->socket();
}

void ClientSockets::Remove(const std::string& peer) {
  std::unique_ptr<Watched> gone;
  MutexLock lock(mutex_);
  auto it = sockets_.find(peer);
  if (it == sockets_.end()) return;
  gone = std::move(it->second);
  sockets_.erase(it);
}

void ClientSockets::Clear() {
  absl::flat_hash_map<std::string, std::unique_ptr<Watched>> gone;
  MutexLock lock(mutex_);
  gone.swap(sockets_);
}

size_t ClientSockets::size() const {
  MutexLock lock(mutex_);
  return sockets_.size();
}

}  // namespace switchtower
