// A ControllerPort over one framed connection, from the moment its hello was accepted.
//
// Place:    worker/agent.
// Threads:  as ControllerPort; frames and the end come from the connection's loop.
// Lifetime: shared by the Worker and the server's connection; closing either way tells both.
// Errors:   a command that can't be decoded, or a controller that doesn't read its events, ends the connection.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/net/event_loop.h"
#include "base/net/framed_connection.h"
#include "worker/agent/watermark_pace.h"
#include "worker_api/port.h"

namespace switchtower {

class SocketPort : public ControllerPort, public std::enable_shared_from_this<SocketPort> {
 public:
  SocketPort(EventLoop& loop, std::shared_ptr<FramedConnection> connection)
      : poster_(loop.poster()), loop_(loop), connection_(std::move(connection)) {}

  void Start(Handlers handlers) override EXCLUDES(mutex_);
  using ControllerPort::Send;
  void Send(WorkerEvent event, OnSent on_sent) override;
  // Events sent before it still leave.
  void Close(absl::Status why) override { connection_->CloseWhenWritten(std::move(why)); }

  // Loop's thread.
  void OnCommandFrame(std::string_view body) EXCLUDES(mutex_);
  void OnClosed(absl::Status why) EXCLUDES(mutex_);

 private:
  void SendWatermark(const Watermark& watermark) EXCLUDES(mutex_);
  void SendDueWatermark(WatermarkPace::Time due) EXCLUDES(mutex_);
  // Under the lock, so that a later one stays behind it (L-1).
  void QueueWatermark(WatermarkPace::Time due, WatermarkPace::Time now) REQUIRES(mutex_);
  absl::Status Write(const WorkerEvent& event, FramedConnection::SendOptions options);

  const EventLoop::Poster poster_;
  EventLoop& loop_;  // on its own thread only
  const std::shared_ptr<FramedConnection> connection_;
  Mutex mutex_;
  WatermarkPace pace_ GUARDED_BY(mutex_);
  // Null before Start. Used outside of the lock by the loop's thread, once `early_` is empty.
  std::shared_ptr<Handlers> handlers_ GUARDED_BY(mutex_);
  std::deque<WorkerCommand> early_ GUARDED_BY(mutex_);
  std::optional<absl::Status> early_end_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
