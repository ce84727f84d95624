// One port for two protocols: clients' gRPC connections and their agents' frames. Whoever connects speaks first, and
// the first byte tells: a frame's magic, or else gRPC. So whatever brings a client here (a forwarded port, a tunnel, a
// service's address) brings its agent too.
//
//   accept --> wait for a byte (peeked) --'S'--> on_agent
//                                       \--> on_grpc
//
// Place:    frontdoor; knows neither protocol beyond that byte.
// Threads:  the loop's. The handlers get nonblocking sockets of which nothing was read.
// Lifetime: destroyed on the loop's thread or after its end; sockets that haven't spoken are closed.
// Errors:   Create: a sentence about the address. Who says nothing for a while is hung up on.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/net/address.h"
#include "base/net/event_loop.h"

namespace switchtower {

class SharedPort {
 public:
  struct Handlers {
    absl::AnyInvocable<void(UniqueFd)> on_grpc;
    absl::AnyInvocable<void(UniqueFd)> on_agent;
  };
  // On the loop's thread.
  static absl::StatusOr<std::unique_ptr<SharedPort>> Create(EventLoop& loop, const Address& address, Handlers handlers);
  ~SharedPort();
  int port() const { return listener_->address().port; }

 private:
  class Caller;
  SharedPort(EventLoop& loop, Handlers handlers);
  void Accept(UniqueFd socket);
  // Forgets the caller, whatever it is.
  UniqueFd Take(Caller* caller);

  EventLoop& loop_;
  Handlers handlers_;
  std::unique_ptr<Listener> listener_;
  absl::flat_hash_map<Caller*, std::unique_ptr<Caller>> callers_;
};

}  // namespace switchtower
