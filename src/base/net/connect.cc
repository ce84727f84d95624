// Connecting: the addresses of a name are tried in turn, without blocking, against one deadline.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/net/address.h"
#include "base/net/socket_address.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Done = absl::AnyInvocable<void(absl::StatusOr<UniqueFd>)>;

absl::Status ConnectError(const Address& address, int error) {
  std::string_view advice;
  if (error == ECONNREFUSED) advice = "; nothing listens there";
  return absl::UnavailableError(fmt::format("can't connect to {}: {}{}", address.ToString(), strerror(error), advice));
}

absl::Status TooSlow(const Address& address, milliseconds timeout) {
  return absl::DeadlineExceededError(
      fmt::format("can't connect to {}: no answer in {} ms", address.ToString(), timeout.count()));
}

UniqueFd NewStream(const SocketAddress& socket_address) {
  UniqueFd fd(::socket(socket_address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) ConfigureStream(fd.get(), socket_address.family());
  return fd;
}

int PendingError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// One attempt on a loop; its deadline's timer keeps it alive.
class Dialer : public EventLoop::FdHandler, public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(EventLoop& loop, Address address, milliseconds timeout, Done done)
      : loop_(loop), address_(std::move(address)), timeout_(timeout), done_(std::move(done)) {}

  void Start() {
    deadline_ = loop_.RunAfter(timeout_,
                               [self = shared_from_this()] { self->Finish(TooSlow(self->address_, self->timeout_)); });
    auto known = Resolve(address_, Lookup::kNumericOnly);
    if (known.ok()) return OnResolved(std::move(known));
    std::thread([weak = weak_from_this(), address = address_, poster = loop_.poster()] {
      auto found = Resolve(address, Lookup::kMayBlock);
      poster.Post([weak, found = std::move(found)]() mutable {
        if (auto dialer = weak.lock()) dialer->OnResolved(std::move(found));
      });
    }).detach();
  }

  void OnReady(uint32_t) override {
    const int error = PendingError(fd_.get());
    loop_.Remove(std::exchange(registration_, {}));
    if (error == 0) return Finish(std::move(fd_));
    last_error_ = ConnectError(address_, error);
    TryNext();
  }

 private:
  void OnResolved(absl::StatusOr<std::vector<SocketAddress>> candidates) {
    if (done_ == nullptr) return;  // too late
    if (!candidates.ok()) return Finish(candidates.status());
    candidates_ = *std::move(candidates);
    TryNext();
  }

  void TryNext() {
    while (next_ < candidates_.size()) {
      const SocketAddress& candidate = candidates_[next_];
      fd_ = NewStream(candidate);
      if (!fd_.valid()) return Finish(ConnectError(address_, errno));
      if (::connect(fd_.get(), candidate.get(), candidate.size) == 0) return Finish(std::move(fd_));
      if (errno == EAGAIN) {
        // A unix listener whose backlog is full: it will accept in a moment.
        retry_ = loop_.RunAfter(milliseconds(5), [this] { TryNext(); });
        return;
      }
      ++next_;
      if (errno == EINPROGRESS) {
        auto registration = loop_.Add(fd_.get(), EPOLLOUT, this);
        if (!registration.ok()) return Finish(registration.status());
        registration_ = *registration;
        return;
      }
      last_error_ = ConnectError(address_, errno);
    }
    Finish(last_error_);
  }

  void Finish(absl::StatusOr<UniqueFd> result) {
    const auto self = shared_from_this();
    loop_.Cancel(deadline_);
    loop_.Cancel(retry_);
    if (registration_.id != 0) loop_.Remove(registration_);
    std::exchange(done_, nullptr)(std::move(result));
  }

  EventLoop& loop_;
  const Address address_;
  const milliseconds timeout_;
  Done done_;
  std::vector<SocketAddress> candidates_;
  size_t next_ = 0;
  UniqueFd fd_;
  EventLoop::Registration registration_;
  EventLoop::TimerId deadline_, retry_;
  absl::Status last_error_;
};

// Waits until `fd` is connected or the deadline has passed.
absl::Status AwaitConnected(const Address& address, int fd, steady_clock::time_point deadline, milliseconds timeout) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return TooSlow(address, timeout);
    pollfd poll_fd{fd, POLLOUT, 0};
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return ConnectError(address, errno);
    if (ready <= 0) continue;
    const int error = PendingError(fd);
    return error == 0 ? absl::OkStatus() : ConnectError(address, error);
  }
}

absl::StatusOr<UniqueFd> ConnectOne(const Address& address, const SocketAddress& candidate,
                                    steady_clock::time_point deadline, milliseconds timeout) {
  while (true) {
    UniqueFd fd = NewStream(candidate);
    if (!fd.valid()) return ConnectError(address, errno);
    if (::connect(fd.get(), candidate.get(), candidate.size) == 0) return fd;
    if (errno == EINPROGRESS) {
      RETURN_IF_ERROR(AwaitConnected(address, fd.get(), deadline, timeout));
      return fd;
    }
    if (errno != EAGAIN) return ConnectError(address, errno);
    if (steady_clock::now() >= deadline) return TooSlow(address, timeout);
    std::this_thread::sleep_for(milliseconds(5));  // a unix listener with a full backlog
  }
}

}  // namespace

void Connect(EventLoop& loop, const Address& address, milliseconds timeout, Done done) {
  std::make_shared<Dialer>(loop, address, timeout, std::move(done))->Start();
}

absl::StatusOr<UniqueFd> ConnectAndWait(const Address& address, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  ASSIGN_OR_RETURN(std::vector<SocketAddress> candidates, Resolve(address, Lookup::kMayBlock));
  absl::Status last;
  for (const SocketAddress& candidate : candidates) {
    auto fd = ConnectOne(address, candidate, deadline, timeout);
    if (fd.ok()) return fd;
    last = fd.status();
  }
  return last;
}

}  // namespace switchtower
