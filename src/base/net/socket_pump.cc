#include "base/net/socket_pump.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace switchtower {
namespace {
// Then other descriptors have their turn; epoll comes back for the rest.
constexpr int kMovesPerTurn = 8;
}  // namespace

// One of the two sockets, and the bytes that were read from it and not yet passed on.
class SocketPump::End : private EventLoop::FdHandler {
 public:
  End(SocketPump& pump, UniqueFd socket) : pump_(pump), socket_(std::move(socket)) {}
  ~End() override { pump_.loop_.Remove(registration_); }

  // Passes on what is there. False if `to` takes no more, ever.
  bool MoveTo(End& to) {
    for (int i = 0; i < kMovesPerTurn; ++i) {
      if (waiting() == 0 && !Read()) return true;
      const ssize_t n = ::send(to.socket_.get(), bytes_.data() + passed_on_, waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      passed_on_ += static_cast<size_t>(n);
    }
    return true;
  }
  bool done() const { return ended_ && waiting() == 0; }

  // Wakes for what can go on now; for nothing else, not even a hang-up, while nothing can.
  absl::Status Watch(const End& other) {
    const uint32_t events =
        (waiting() == 0 && !ended_ ? uint32_t{EPOLLIN} : 0) | (other.waiting() > 0 ? uint32_t{EPOLLOUT} : 0);
    if (events == events_) return absl::OkStatus();
    if (events == 0) {
      pump_.loop_.Remove(std::exchange(registration_, {}));
    } else if (events_ == 0) {
      ASSIGN_OR_RETURN(registration_, pump_.loop_.Add(socket_.get(), events, this));
    } else {
      pump_.loop_.Modify(registration_, events);
    }
    events_ = events;
    return absl::OkStatus();
  }

 private:
  void OnReady(uint32_t) override { pump_.Turn(); }  // may be gone afterwards
  size_t waiting() const { return size_ - passed_on_; }

  // False if there is nothing now.
  bool Read() {
    passed_on_ = size_ = 0;
    if (ended_) return false;
    const ssize_t n = ::recv(socket_.get(), bytes_.data(), bytes_.size(), MSG_DONTWAIT);
    if (n > 0) size_ = static_cast<size_t>(n);
    ended_ = n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    return n > 0;
  }

  SocketPump& pump_;
  const UniqueFd socket_;
  EventLoop::Registration registration_;
  uint32_t events_ = 0;
  std::vector<char> bytes_ = std::vector<char>(kBufferBytes);
  size_t size_ = 0, passed_on_ = 0;
  bool ended_ = false;
};

SocketPump::SocketPump(EventLoop& loop, UniqueFd one, UniqueFd other, Task on_end)
    : loop_(loop),
      on_end_(std::move(on_end)),
      one_(std::make_unique<End>(*this, std::move(one))),
      other_(std::make_unique<End>(*this, std::move(other))) {}

SocketPump::~SocketPump() = default;

absl::StatusOr<std::unique_ptr<SocketPump>> SocketPump::Create(EventLoop& loop, UniqueFd one, UniqueFd other,
                                                               Task on_end) {
  std::unique_ptr<SocketPump> pump(new SocketPump(loop, std::move(one), std::move(other), std::move(on_end)));
  RETURN_IF_ERROR(pump->Watch());
  return pump;
}

absl::Status SocketPump::Watch() {
  RETURN_IF_ERROR(one_->Watch(*other_));
  return other_->Watch(*one_);
}

void SocketPump::Turn() {
  const bool moved = one_->MoveTo(*other_) && other_->MoveTo(*one_);
  if (moved && !one_->done() && !other_->done() && Watch().ok()) return;
  // On its own copy: it may destroy this.
  if (Task on_end = std::exchange(on_end_, nullptr)) on_end();
}

}  // namespace switchtower
