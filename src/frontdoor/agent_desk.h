// Where a session's programs meet the agent in its client's process: calls out, answers in.
//
//   sequencer --OnCall--> desk --AgentFrame--> link (AgentServer's connection) --> agent
//                          '<--- Returned, Retire ---'
//
// Place:    frontdoor; one for each session, made before the client learns of it.
// Threads:  any.
// Lifetime: shared by session, registry and connection. Close() (the session's end) ends the link.
// Errors:   a call without an agent, or whose agent goes away, fails with a sentence that says what to do.
// Invariants: D-1 each call is answered exactly once. D-2 a callback is released once no program can call it and the
//           client has retired it, and not before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "controller/api/session.h"
#include "wire/agent/agent_codec.h"

namespace switchtower {

// The way to an attached agent.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  // Any thread; the frame is dropped if the connection has ended.
  virtual void Send(AgentFrame frame) = 0;
  virtual void Close(const absl::Status& why) = 0;
};

class AgentDesk final : public ClientCallServer, public std::enable_shared_from_this<AgentDesk> {
 public:
  // What a session's devices hold, on any thread and as long as it is asked for.
  using MemorySource = std::function<void(Callback<std::vector<DeviceMemory>>)>;

  // Draws the secret.
  AgentDesk(SessionId session, MemorySource memory);

  // What the client's device attribute carries: "session:secret".
  const std::string& token() const { return token_; }

  void OnCall(ClientCall call) override EXCLUDES(mutex_);
  std::shared_ptr<const void> Hold(absl::Span<const uint64_t> callbacks) override EXCLUDES(mutex_);

  // One agent at a time, the first wins. It is welcomed before anything else is sent to it.
  absl::Status Attach(std::shared_ptr<AgentLink> link) EXCLUDES(mutex_);
  // Not the link that is attached: nothing happens.
  void Detach(const AgentLink* link) EXCLUDES(mutex_);
  void Returned(AgentReturn answer) EXCLUDES(mutex_);
  void Retire(const std::vector<uint64_t>& callbacks) EXCLUDES(mutex_);
  void ReadMemory(Callback<std::vector<DeviceMemory>> done) const { memory_(std::move(done)); }
  void Close(const absl::Status& why) EXCLUDES(mutex_);

 private:
  struct Function {
    int64_t programs = 0;  // that may call it
    bool retired = false;
  };
  void LetGo(const std::vector<uint64_t>& callbacks) EXCLUDES(mutex_);
  void FailAll(const absl::Status& why) EXCLUDES(mutex_);

  const std::string token_;
  const MemorySource memory_;
  Mutex mutex_;
  std::shared_ptr<AgentLink> link_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  uint64_t last_call_ GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, ClientCall> pending_ GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Function> callbacks_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
