#include "base/net/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>

#include "base/check.h"
#include "base/log.h"
#include "base/net/host_port.h"
#include "base/net/socket_address.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr std::string_view kTcp = "tcp:", kUnix = "unix:", kUnixAbstract = "unix-abstract:";

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

absl::Status BadAddress(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is not an address: {}; give host:port, tcp:host:port, unix:/path or unix-abstract:name", text, why));
}

absl::StatusOr<SocketAddress> UnixSocketAddress(const Address& address) {
  SocketAddress result;
  auto* un = reinterpret_cast<sockaddr_un*>(&result.storage);
  const bool abstract = address.kind == Address::Kind::kUnixAbstract;
  if (address.path.empty() || address.path.size() + 1 > sizeof(un->sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("unix socket name \"{}\" must have 1 to {} characters", address.path, sizeof(un->sun_path) - 1));
  }
  un->sun_family = AF_UNIX;
  // An abstract name begins with a zero byte and has no final one.
  memcpy(un->sun_path + (abstract ? 1 : 0), address.path.data(), address.path.size());
  result.size = offsetof(sockaddr_un, sun_path) + address.path.size() + 1;
  return result;
}

// True if a socket file has no listener any more: its process was killed.
bool IsStale(const SocketAddress& address) {
  UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.valid() && ::connect(probe.get(), address.get(), address.size) != 0 && errno == ECONNREFUSED;
}

absl::Status ListenError(const Address& address, int error) {
  if (error == EADDRINUSE && address.kind == Address::Kind::kTcp) {
    return absl::AlreadyExistsError(
        fmt::format("port {} on {} is in use by another program; stop that program or choose another "
                    "port (0 picks a free one)",
                    address.port, address.host.empty() ? "127.0.0.1" : address.host));
  }
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        fmt::format("{} is in use by another program; stop it or choose another name", address.ToString()));
  }
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(fmt::format(
        "this user may not listen on {}; choose another one (ports below 1024 need privileges)", address.ToString()));
  }
  if (error == EADDRNOTAVAIL) {
    return absl::InvalidArgumentError(fmt::format(
        "can't listen on {}: this machine has no such address; 0.0.0.0 stands for all", address.ToString()));
  }
  return absl::UnknownError(fmt::format("can't listen on {}: {}", address.ToString(), strerror(error)));
}

}  // namespace

absl::StatusOr<Address> Address::Parse(std::string_view text) {
  const std::string_view whole = text;
  Address address;
  if (TakePrefix(text, kUnixAbstract)) {
    address.kind = Kind::kUnixAbstract;
    address.path = text;
    if (text.empty()) return BadAddress(whole, "the name is empty");
    return address;
  }
  if (TakePrefix(text, kUnix)) {
    address.kind = Kind::kUnix;
    address.path = text;
    if (text.empty() || text[0] != '/') return BadAddress(whole, "the path must begin with /");
    return address;
  }
  TakePrefix(text, kTcp);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(whole, "there is no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return BadAddress(whole, "the port must be a number from 0 to 65535");
  }
  if (!host.empty() && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(whole, "an IPv6 host must stand in brackets");
  }
  address.host = host;
  return address;
}

Address Address::Tcp(std::string host, uint16_t port) {
  Address address;
  address.host = std::move(host);
  address.port = port;
  return address;
}

Address Address::UniqueAbstract(std::string_view prefix) {
  Address address;
  address.kind = Kind::kUnixAbstract;
  address.path = fmt::format("{}-{}", prefix, RandomHex(16));
  return address;
}

std::string Address::ToString() const {
  switch (kind) {
    case Kind::kUnix:
      return fmt::format("{}{}", kUnix, path);
    case Kind::kUnixAbstract:
      return fmt::format("{}{}", kUnixAbstract, path);
    case Kind::kTcp:
      break;
  }
  return fmt::format("{}{}", kTcp, HostPort(host, port));
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const Address& address, Lookup lookup) {
  if (address.is_unix()) {
    ASSIGN_OR_RETURN(SocketAddress unix_address, UnixSocketAddress(address));
    return std::vector<SocketAddress>{unix_address};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (lookup == Lookup::kNumericOnly ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const std::string host = address.host.empty() ? "127.0.0.1" : address.host;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(fmt::format("can't find host \"{}\": {}", host, gai_strerror(error)));
  }
  std::vector<SocketAddress> result;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    SocketAddress socket_address;
    memcpy(&socket_address.storage, info->ai_addr, info->ai_addrlen);
    socket_address.size = info->ai_addrlen;
    result.push_back(socket_address);
  }
  ::freeaddrinfo(found);
  return result;
}

void ConfigureStream(int fd, int family) {
  if (family == AF_UNIX) return;
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof(value)); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // ms without an acknowledgement of what was sent
}

absl::StatusOr<ListenSocket> Listen(const Address& address) {
  ASSIGN_OR_RETURN(std::vector<SocketAddress> candidates, Resolve(address, Lookup::kMayBlock));
  const SocketAddress& socket_address = candidates.front();
  ListenSocket result;
  result.fd = UniqueFd(::socket(socket_address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = result.fd.get();
  if (fd < 0) return ListenError(address, errno);
  if (address.kind == Address::Kind::kTcp) {
    const int one = 1;  // a port whose old connections are in TIME_WAIT is free
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  }
  int bound = ::bind(fd, socket_address.get(), socket_address.size);
  if (bound != 0 && errno == EADDRINUSE && address.kind == Address::Kind::kUnix && IsStale(socket_address)) {
    ::unlink(address.path.c_str());
    bound = ::bind(fd, socket_address.get(), socket_address.size);
  }
  if (bound != 0) return ListenError(address, errno);
  if (address.kind == Address::Kind::kUnix) ::chmod(address.path.c_str(), 0600);
  if (::listen(fd, 4096) != 0) return ListenError(address, errno);
  result.address = address;
  if (address.kind == Address::Kind::kTcp) {
    if (result.address.host.empty()) result.address.host = "127.0.0.1";
    sockaddr_storage actual{};
    socklen_t size = sizeof(actual);
    CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&actual), &size) == 0);
    result.address.port = ntohs(actual.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&actual)->sin6_port
                                                             : reinterpret_cast<sockaddr_in*>(&actual)->sin_port);
  }
  return result;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(EventLoop& loop, const Address& address,
                                                           OnAccept on_accept) {
  ASSIGN_OR_RETURN(ListenSocket socket, Listen(address));
  auto listener = std::unique_ptr<Listener>(new Listener(loop, std::move(socket), std::move(on_accept)));
  absl::Status status;
  loop.RunAndWait([&] {
    auto registration = loop.Add(listener->socket_.fd.get(), EPOLLIN, listener.get());
    status = registration.status();
    if (status.ok()) listener->registration_ = *registration;
  });
  RETURN_IF_ERROR(status);
  return listener;
}

Listener::Listener(EventLoop& loop, ListenSocket socket, OnAccept on_accept)
    : loop_(loop), socket_(std::move(socket)), on_accept_(std::move(on_accept)) {}

Listener::~Listener() {
  loop_.RunAndWait([this] {
    loop_.Cancel(resume_);
    if (registration_.id != 0) loop_.Remove(registration_);
  });
  if (socket_.address.kind == Address::Kind::kUnix) ::unlink(socket_.address.path.c_str());
}

void Listener::OnReady(uint32_t epoll_events) {
  while (true) {
    UniqueFd peer(::accept4(socket_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      LogWarn("can't accept a connection on {}: {}, next try in 100 ms", address().ToString(), strerror(errno));
      loop_.Modify(registration_, 0);
      resume_ = loop_.RunAfter(std::chrono::milliseconds(100), [this] { loop_.Modify(registration_, EPOLLIN); });
      return;
    }
    if (address().is_unix()) {
      ucred credentials{};
      socklen_t size = sizeof(credentials);
      if (::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
          credentials.uid != ::geteuid()) {
        LogWarn("connection on {} refused, it comes from user {}", address().ToString(), credentials.uid);
        continue;
      }
    }
    ConfigureStream(peer.get(), address().is_unix() ? AF_UNIX : AF_INET);
    on_accept_(std::move(peer));
  }
}

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {
    const ssize_t n = ::getrandom(random.data() + have, bytes - have, 0);
    CHECK(n > 0 || errno == EINTR);
    if (n > 0) have += n;
  }
  std::string hex;
  for (const unsigned char byte : random) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool SecretsEqual(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace switchtower
