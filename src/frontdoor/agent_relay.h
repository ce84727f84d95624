// Leads agents to the door where their session is: to this one's AgentServer, or, for a relayed session, on to its
// home. The hello is looked at, not taken, so that the home hears it as it was said.
//
//   SharedPort --socket--> Caller (peeks the hello) --ours------> AgentServer
//                                                   \--relayed--> connect to the home, SocketPump
//
// Place:    frontdoor; between SharedPort and AgentServer.
// Threads:  the loop's, but for Drop.
// Lifetime: the loop and the server outlive it; Stop() before the loop stops.
// Errors:   a home that can't be reached is told to the agent in its welcome.
// Invariants: A-1 is the home's to keep: here only the session's number is looked at, not its secret.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "base/net/event_loop.h"
#include "base/net/socket_pump.h"
#include "base/net/unique_fd.h"
#include "frontdoor/agent_server.h"
#include "frontdoor/relay_table.h"

namespace switchtower {

class AgentRelay {
 public:
  AgentRelay(EventLoop& loop, const RelayTable& relays, AgentServer& agents);
  ~AgentRelay();
  AgentRelay(const AgentRelay&) = delete;
  AgentRelay& operator=(const AgentRelay&) = delete;
  void Stop();

  // A socket that begins as an agent's does.
  void Accept(UniqueFd socket);
  // Any thread: a relayed session has ended, and so has its agent.
  void Drop(uint64_t session);

 private:
  class Caller;
  struct Joined {
    uint64_t session = 0;
    std::unique_ptr<SocketPump> pump;
  };
  void Lead(UniqueFd socket, uint64_t session);
  void Join(uint64_t session, UniqueFd agent, UniqueFd home);
  UniqueFd Take(Caller* caller);

  EventLoop& loop_;
  const RelayTable& relays_;
  AgentServer& agents_;
  bool stopped_ = false;
  uint64_t last_join_ = 0;
  absl::flat_hash_map<Caller*, std::unique_ptr<Caller>> callers_;
  absl::flat_hash_map<uint64_t, Joined> joined_;
};

}  // namespace switchtower
