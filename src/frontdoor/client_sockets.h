// The sockets of the connections that gRPC serves, by the name that it gives their peers.
//
// Place:    frontdoor; filled where the door gives a socket to gRPC, asked by streams.
// Threads:  Add and Clear on the loop's; Find from any.
// Lifetime: a socket is here until its connection ends, however that comes. Cleared before the loop stops.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/net/event_loop.h"
#include "frontdoor/client_socket.h"

namespace switchtower {

class ClientSockets {
 public:
  explicit ClientSockets(EventLoop& loop);
  ~ClientSockets();

  // `socket` stays the caller's. One that can't be watched, or isn't of TCP, isn't found later.
  void Add(int socket) EXCLUDES(mutex_);
  // Null if it isn't known. `peer` as grpc::ServerContext::peer says it.
  std::shared_ptr<ClientSocket> Find(const std::string& peer) const EXCLUDES(mutex_);
  void Clear() EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);

 private:
  class Watched;
  void Remove(const std::string& peer) EXCLUDES(mutex_);

  EventLoop& loop_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<Watched>> sockets_ GUARDED_BY(mutex_);
};

// What gRPC calls whoever is at the other end, such as "ipv4:127.0.0.1:5001"; empty for what it isn't known of.
std::string PeerOf(int socket);

}  // namespace switchtower
