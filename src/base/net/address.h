// Where a process listens and how another one reaches it.
//
//   tcp:host:port, tcp:[::1]:port, host:port    TCP; port 0 in a listener picks a free one
//   unix:/path                                  a socket file
//   unix-abstract:name                          Linux abstract namespace: no file, gone with the process
//
// Place:    base/net; knows sockets, not frames.
// Threads:  Connect on the loop's thread, its callback too; the rest anywhere. Names are resolved on a
//           thread of their own, since getaddrinfo blocks.
// Lifetime: a Listener is closed by its destructor, on the loop's thread or after its loop was stopped.
// Errors:   sentences for people: which address, what happened, what to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/net/event_loop.h"
#include "base/net/unique_fd.h"

namespace switchtower {

struct Address {
  enum class Kind { kTcp, kUnix, kUnixAbstract };
  Kind kind = Kind::kTcp;
  std::string host;   // TCP; empty means loopback
  uint16_t port = 0;  // TCP
  std::string path;   // unix: file or abstract name

  static absl::StatusOr<Address> Parse(std::string_view text);
  static Address Tcp(std::string host, uint16_t port);
  // An abstract name that nobody can guess: `prefix` and 128 random bits.
  static Address UniqueAbstract(std::string_view prefix);
  std::string ToString() const;
  bool is_unix() const { return kind != Kind::kTcp; }
};

struct ListenSocket {
  UniqueFd fd;
  Address address;  // with the port that was picked
};
// Nonblocking, close-on-exec. A socket file that nobody listens on any more is replaced.
absl::StatusOr<ListenSocket> Listen(const Address& address);

// Accepts on a loop. `on_accept` gets nonblocking sockets ready for a FramedConnection. Peers on unix
// sockets that run as another user are turned away.
class Listener : private EventLoop::FdHandler {
 public:
  using OnAccept = absl::AnyInvocable<void(UniqueFd)>;
  static absl::StatusOr<std::unique_ptr<Listener>> Create(EventLoop& loop, const Address& address, OnAccept on_accept);
  ~Listener() override;
  const Address& address() const { return socket_.address; }

 private:
  Listener(EventLoop& loop, ListenSocket socket, OnAccept on_accept);
  void OnReady(uint32_t epoll_events) override;

  EventLoop& loop_;
  ListenSocket socket_;
  OnAccept on_accept_;
  EventLoop::Registration registration_;
  // Accepting pauses for a moment when descriptors have run out.
  EventLoop::TimerId resume_;
};

// Tries the addresses of a name in turn until one answers or `timeout` has passed.
void Connect(EventLoop& loop, const Address& address, std::chrono::milliseconds timeout,
             absl::AnyInvocable<void(absl::StatusOr<UniqueFd>)> done);
// The same for a thread that may wait.
absl::StatusOr<UniqueFd> ConnectAndWait(const Address& address, std::chrono::milliseconds timeout);

// `bytes` random bytes of the kernel in hexadecimal: secrets, unguessable names.
std::string RandomHex(size_t bytes);
// Takes the same time wherever the two differ.
bool SecretsEqual(std::string_view a, std::string_view b);

}  // namespace switchtower
