#include "worker/agent/socket_port.h"

#include <utility>

#include "base/log.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {

void SocketPort::Start(Handlers handlers) {
  // Under the lock, so that frames which come now stay behind those that came before. The handlers only post.
  MutexLock lock(mutex_);
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
  for (WorkerCommand& command : early_) handlers_->on_command(std::move(command));
  early_.clear();
  if (early_end_.has_value()) handlers_->on_closed(*std::exchange(early_end_, std::nullopt));
}

void SocketPort::OnCommandFrame(std::string_view body) {
  absl::StatusOr<WorkerCommand> command = DecodeCommand(body);
  if (!command.ok()) {
    LogError("controller sent what is no command: {}", command.status().ToString());
    connection_->Close(command.status());
    return;
  }
  std::shared_ptr<Handlers> handlers;
  {
    MutexLock lock(mutex_);
    handlers = handlers_;
    if (handlers == nullptr) early_.push_back(*std::move(command));
  }
  if (handlers != nullptr) handlers->on_command(*std::move(command));
}

void SocketPort::OnClosed(absl::Status why) {
  std::shared_ptr<Handlers> handlers;
  {
    MutexLock lock(mutex_);
    handlers = handlers_;
    if (handlers == nullptr) early_end_ = why;
  }
  if (handlers != nullptr) handlers->on_closed(std::move(why));
}

absl::Status SocketPort::Write(const WorkerEvent& event, FramedConnection::SendOptions options) {
  Payload body(EncodeEventHead(event));
  if (auto payload = EventPayload(event)) body.Append(std::move(payload));
  absl::Status status =
      connection_->Send(static_cast<uint32_t>(WorkerFrame::kEvent), std::move(body), std::move(options));
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    connection_->Close(absl::ResourceExhaustedError("the controller doesn't read what this worker sends"));
  }
  return status;
}

void SocketPort::Send(WorkerEvent event, OnSent on_sent) {
  if (const auto* watermark = std::get_if<Watermark>(&event)) {
    SendWatermark(*watermark);
    if (on_sent != nullptr) std::move(on_sent)();
    return;
  }
  FramedConnection::SendOptions options;
  auto sent = std::make_shared<OnSent>(std::move(on_sent));
  if (*sent != nullptr) {
    options.on_written = [sent](absl::Status) { std::move (*sent)(); };
  }
  if (!Write(event, std::move(options)).ok() && *sent != nullptr) std::move (*sent)();
}

void SocketPort::SendWatermark(const Watermark& watermark) {
  {
    MutexLock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto due = pace_.OnEnded(watermark, now);
    if (!due.has_value()) return;
    if (*due > now) {
      poster_.Post([self = shared_from_this(), due = *due, wait = *due - now] {
        self->loop_.RunAfter(wait, [self, due] { self->SendDueWatermark(due); });
      });
      return;
    }
    QueueWatermark(*due, now);
  }
  // Here, not on the loop's thread: waking that takes longer.
  connection_->Flush();
}

void SocketPort::SendDueWatermark(WatermarkPace::Time due) {
  {
    MutexLock lock(mutex_);
    QueueWatermark(due, std::chrono::steady_clock::now());
  }
  connection_->Flush();
}

void SocketPort::QueueWatermark(WatermarkPace::Time due, WatermarkPace::Time now) {
  const std::optional<Watermark> watermark = pace_.Take(due, now);
  if (!watermark.has_value()) return;
  FramedConnection::SendOptions options;
  options.when = FramedConnection::When::kFlush;
  Write(*watermark, std::move(options)).IgnoreError();
}

}  // namespace switchtower
