// How the controller talks to one worker. Real: a framed socket (controller/cluster). In one process:
// InProcessChannel (worker_api/in_process_channel.h).
//
// Threads:  Send from any thread; commands of one caller keep their order. Events come on one thread at a
//           time, in order; the handler must not block.
// Lifetime: after Close (or the peer's end) no more events come; OnClosed is called exactly once, last.
// Errors:   Send after the end is a no-op: what was promised is failed by whoever sees OnClosed.
#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

// A command, encoded at most once however many workers it goes to.
class SharedCommand {
 public:
  explicit SharedCommand(WorkerCommand command) : command_(std::move(command)) {}
  const WorkerCommand& command() const { return command_; }
  // The wire form, made by `encode` on first use (a channel in one process never needs it). Not thread safe:
  // all Sends of one SharedCommand come from one thread.
  template <typename Encode>
  const std::shared_ptr<const std::string>& encoded(Encode&& encode) const {
    if (encoded_ == nullptr) encoded_ = std::make_shared<const std::string>(encode(command_));
    return encoded_;
  }

 private:
  const WorkerCommand command_;
  mutable std::shared_ptr<const std::string> encoded_;
};

class WorkerChannel {
 public:
  struct Handlers {
    absl::AnyInvocable<void(WorkerEvent)> on_event;
    absl::AnyInvocable<void(absl::Status)> on_closed;
  };
  // What a command's way may cost, and whom. A hint: a channel without a network needs none.
  enum class When {
    kSoon,      // a thread of the channel's writes it, together with what comes meanwhile
    kNow,       // this thread does: somebody waits for what comes of it
    kWithNext,  // the next command takes it along, or a moment after the worker's next event: nobody waits
  };
  virtual ~WorkerChannel() = default;
  virtual void Start(Handlers handlers) = 0;
  virtual void Send(std::shared_ptr<const SharedCommand> command, When when) = 0;
  void Send(std::shared_ptr<const SharedCommand> command) { Send(std::move(command), When::kSoon); }
  // Bytes accepted by Send and not yet taken by the network; for snapshots.
  virtual size_t queued_bytes() const = 0;
  virtual void Close() = 0;
};

}  // namespace switchtower
