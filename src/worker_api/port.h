// A worker's side of one controller's connection: commands come in, events go out. The other end is a
// WorkerChannel.
//
// Threads:  Send, Close from any thread; events of one thread keep their order. Handlers are called on one
//           thread at a time and must not block.
// Lifetime: on_closed comes exactly once and last, whoever ended it; after it Send drops what it is given.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

class ControllerPort {
 public:
  struct Handlers {
    absl::AnyInvocable<void(WorkerCommand)> on_command;
    absl::AnyInvocable<void(absl::Status)> on_closed;
  };
  using OnSent = absl::AnyInvocable<void()>;

  virtual ~ControllerPort() = default;
  virtual void Start(Handlers handlers) = 0;
  // `on_sent` (may be null) is called exactly once, when the event left this process or was dropped: a sender of
  // much data waits for it.
  virtual void Send(WorkerEvent event, OnSent on_sent) = 0;
  void Send(WorkerEvent event) { Send(std::move(event), nullptr); }
  virtual void Close(absl::Status why) = 0;
};

}  // namespace switchtower
