#include "base/net/framed_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "base/check.h"

namespace switchtower {

std::shared_ptr<FramedConnection> FramedConnection::Create(EventLoop& loop, UniqueFd socket, Options options,
                                                           std::shared_ptr<Handler> handler) {
  auto connection =
      std::shared_ptr<FramedConnection>(new FramedConnection(loop, std::move(socket), options, std::move(handler)));
  CHECK(loop.Post([connection] { connection->Register(); }));
  return connection;
}

FramedConnection::FramedConnection(EventLoop& loop, UniqueFd socket, Options options, std::shared_ptr<Handler> handler)
    : loop_(loop), socket_(std::move(socket)), options_(options), handler_(std::move(handler)) {}

FramedConnection::~FramedConnection() = default;

void FramedConnection::Register() {
  self_ = shared_from_this();
  if (is_closed()) return;  // FinishClose is on its way
  absl::Status status;
  {
    MutexLock lock(mutex_);
    uint32_t events = EPOLLIN;
    if (write_state_ == WriteState::kBlocked) events |= EPOLLOUT;
    auto registration = loop_.Add(socket_.get(), events, this);
    status = registration.status();
    if (status.ok()) {
      registration_ = *registration;
      registered_ = true;
    }
  }
  if (!status.ok()) Close(status);
}

void FramedConnection::OnReady(uint32_t epoll_events) {
  if (epoll_events & EPOLLOUT) {
    bool write = false;
    {
      MutexLock lock(mutex_);
      if (!is_closed() && write_state_ == WriteState::kBlocked) {
        write_state_ = WriteState::kWriting;
        write = true;
      }
      loop_.Modify(registration_, EPOLLIN);
    }
    if (write) WriteUntilDone();
  }
  if (epoll_events & (EPOLLIN | EPOLLHUP | EPOLLERR)) Read();
}

void FramedConnection::Close(absl::Status why) {
  bool writer_is_busy = false;
  {
    MutexLock lock(mutex_);
    if (is_closed()) return;
    closed_.store(true, std::memory_order_release);
    close_status_ = std::move(why);
    writer_is_busy = write_state_ == WriteState::kWriting;
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  // A writer in a system call still uses the queue: it posts FinishClose when it comes back.
  if (!writer_is_busy) loop_.Post([self = shared_from_this()] { self->FinishClose(); });
}

void FramedConnection::CloseWhenWritten(absl::Status why) {
  bool wait = false;
  {
    MutexLock lock(mutex_);
    if (is_closed() || close_when_written_) return;
    wait = !queue_.empty() || write_state_ != WriteState::kIdle;
    if (wait) {
      close_when_written_ = true;
      close_status_ = why;
    }
  }
  if (wait) {
    Flush();
  } else {
    Close(std::move(why));
  }
}

void FramedConnection::FinishClose() {
  if (registration_.id != 0) loop_.Remove(registration_);
  RunWritten();
  std::deque<Segment> unsent;
  absl::Status why;
  {
    MutexLock lock(mutex_);
    why = close_status_;
    unsent.swap(queue_);
  }
  const absl::Status error = why.ok() ? absl::CancelledError("the connection was closed") : why;
  for (std::deque<Segment>* segments : {&writing_, &unsent}) {
    for (Segment& segment : *segments) {
      for (OnWritten& on_written : segment.on_written) on_written(error);
    }
    segments->clear();
  }
  queued_bytes_.store(0, std::memory_order_relaxed);
  large_ = {};
  received_fds_.clear();
  if (auto handler = std::move(handler_)) handler->OnClosed(std::move(why));
  self_.reset();
}

}  // namespace switchtower
