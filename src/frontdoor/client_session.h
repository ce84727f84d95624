// One client's session at the door: hands each request to its handler and answers it.
//
// Place:    frontdoor; above the handlers, below the stream.
// Threads:  Handle and Close on the session's strand. Answers leave on any thread.
// Lifetime: owned by its stream. Close() ends the controller's session; what it still had to answer is
//           answered or dropped.
// Invariants: C-1 each request is answered exactly once, with the op_id that it came with.
#pragma once

#include <memory>
#include <string>

#include "controller/api/session.h"
#include "frontdoor/session_state.h"

namespace switchtower {

class ClientSession {
 public:
  // `agent_token` is what the client's agent shows (AgentDesk::token).
  ClientSession(std::unique_ptr<Session> session, ProxyVersion version, std::shared_ptr<HostBufferStore> buffers,
                std::string agent_token);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  // May take large parts out of `request`.
  void Handle(IfrtRequest& request, const std::weak_ptr<ReplySink>& sink);
  void Close(const absl::Status& reason);

  Session& session() { return *session_; }
  const SessionState& state() const { return state_; }

  // What the client hasn't let go of.
  struct Counts {
    size_t buffers = 0;  // of the host, on their way
    size_t futures = 0;
    size_t user_contexts = 0;
    size_t arrays = 0;
  };
  Counts counts() const;

 private:
  std::unique_ptr<Session> session_;
  SessionState state_;
  bool closed_ = false;
};

}  // namespace switchtower
