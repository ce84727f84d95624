#include "frontdoor/shared_port.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace switchtower {
namespace {

// A gRPC client and an agent speak as soon as they are connected.
constexpr std::chrono::seconds kSilence(20);
constexpr char kAgentBegins = 'S';  // FrameHeader's magic

}  // namespace

// A socket that hasn't said yet what it is.
class SharedPort::Caller : private EventLoop::FdHandler {
 public:
  Caller(SharedPort& port, UniqueFd socket) : port_(port), socket_(std::move(socket)) {}
  ~Caller() override {
    port_.loop_.Cancel(timer_);
    port_.loop_.Remove(registration_);
  }
  bool Wait() {
    absl::StatusOr<EventLoop::Registration> registration = port_.loop_.Add(socket_.get(), EPOLLIN, this);
    if (!registration.ok()) return false;
    registration_ = *registration;
    timer_ = port_.loop_.RunAfter(kSilence, [this] { port_.Take(this); });
    return true;
  }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  void OnReady(uint32_t) override {
    char first = 0;
    const ssize_t got = recv(socket_.get(), &first, 1, MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    SharedPort& port = port_;
    UniqueFd socket = port.Take(this);  // this is gone
    if (got <= 0) return;
    (first == kAgentBegins ? port.handlers_.on_agent : port.handlers_.on_grpc)(std::move(socket));
  }

  SharedPort& port_;
  UniqueFd socket_;
  EventLoop::Registration registration_;
  EventLoop::TimerId timer_;
};

SharedPort::SharedPort(EventLoop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}

SharedPort::~SharedPort() = default;

absl::StatusOr<std::unique_ptr<SharedPort>> SharedPort::Create(EventLoop& loop, const Address& address,
                                                               Handlers handlers) {
  std::unique_ptr<SharedPort> port(new SharedPort(loop, std::move(handlers)));
  ASSIGN_OR_RETURN(port->listener_, Listener::Create(loop, address, [raw = port.get()](UniqueFd socket) {
                     raw->Accept(std::move(socket));
                   }));
  return port;
}

void SharedPort::Accept(UniqueFd socket) {
  auto caller = std::make_unique<Caller>(*this, std::move(socket));
  Caller* raw = caller.get();
  callers_.emplace(raw, std::move(caller));
  if (!raw->Wait()) Take(raw);
}

UniqueFd SharedPort::Take(Caller* caller) {
  auto it = callers_.find(caller);
  std::unique_ptr<Caller> gone = std::move(it->second);
  callers_.erase(it);
  UniqueFd socket = gone->TakeSocket();
  return socket;
}

}  // namespace switchtower
