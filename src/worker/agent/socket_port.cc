#include "worker/agent/socket_port.h"

#include <utility>

#include "base/log.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

// Nobody waits for a watermark as one waits for an answer: it makes room for launches that are far ahead.
constexpr std::chrono::milliseconds kWatermarkPause{1};

}  // namespace

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
    SendWatermark(watermark->completed);
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

void SocketPort::SendWatermark(LaunchId completed) {
  MutexLock lock(mutex_);
  watermark_ = completed;
  if (watermark_waits_) return;
  watermark_waits_ = true;
  const auto left = watermark_sent_ + kWatermarkPause - std::chrono::steady_clock::now();
  poster_.Post([self = shared_from_this(), left] {
    if (left <= std::chrono::nanoseconds(0)) return self->FlushWatermark();
    self->loop_.RunAfter(left, [self] { self->FlushWatermark(); });
  });
}

void SocketPort::FlushWatermark() {
  LaunchId completed;
  {
    MutexLock lock(mutex_);
    completed = watermark_;
    watermark_waits_ = false;
    watermark_sent_ = std::chrono::steady_clock::now();
  }
  Write(Watermark{completed}, {}).IgnoreError();
}

}  // namespace switchtower
