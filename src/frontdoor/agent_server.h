// Connections of agents: hears hellos and lets each attach to the session whose token it shows.
//
//   SharedPort --socket--> Connection --hello--> AgentDesk::Attach --> frames in both directions
//
// Place:    frontdoor.
// Threads:  Open and Remove from any thread; connections live on the door's event loop.
// Lifetime: the loop outlives it, but is stopped before it goes.
// Errors:   a stranger, or an agent that says what it shouldn't, loses its own connection alone.
// Invariants: A-1 (I-7) an agent reaches the session whose secret it knows and no other.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/event_loop.h"
#include "base/net/unique_fd.h"
#include "frontdoor/agent_desk.h"

namespace switchtower {

class AgentServer {
 public:
  explicit AgentServer(EventLoop& loop) : loop_(loop) {}
  ~AgentServer();
  // Ends the connections that are left. The loop's thread, before the loop stops.
  void Stop();
  AgentServer(const AgentServer&) = delete;
  AgentServer& operator=(const AgentServer&) = delete;

  // A session begins and ends. Its desk stays usable for who holds it.
  std::shared_ptr<AgentDesk> Open(SessionId session, AgentDesk::MemorySource memory) EXCLUDES(mutex_);
  void Remove(SessionId session) EXCLUDES(mutex_);
  bool Knows(SessionId session) const EXCLUDES(mutex_);

  // The loop's thread: a socket that begins as an agent's does.
  void Accept(UniqueFd socket);
  // Likewise, but its hello is answered with an error.
  void Refuse(UniqueFd socket, absl::Status why);

  static constexpr uint64_t kHelloBytesMax = 4096;

 private:
  class Connection;
  void Open(UniqueFd socket, absl::Status refusal);
  absl::StatusOr<std::shared_ptr<AgentDesk>> Find(std::string_view token) const EXCLUDES(mutex_);
  void Forget(Connection* connection);

  EventLoop& loop_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<AgentDesk>> desks_ GUARDED_BY(mutex_);
  absl::flat_hash_set<std::shared_ptr<Connection>> connections_;  // the loop's thread
};

}  // namespace switchtower
