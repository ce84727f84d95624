#include "controller/cluster/socket_worker_channel.h"

#include <atomic>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/net/address.h"
#include "base/net/framed_connection.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

// For commands that nobody waits for, when no other takes them along. Rare beside the launches of a client that waits
// for each.
constexpr std::chrono::milliseconds kHoldBack{20};

// Both ends of a channel's life: handshake first, then frames. Kept by the connection until it closed, and by
// the channel.
class ChannelCore : public FramedConnection::Handler, public std::enable_shared_from_this<ChannelCore> {
 public:
  using Ready = absl::AnyInvocable<void(absl::Status)>;
  ChannelCore(EventLoop& loop, WorkerId worker, Ready on_hello)
      : loop_(loop), worker_(worker), on_hello_(std::move(on_hello)) {}

  // Loop's thread.
  void Open(UniqueFd socket, const ControllerHello& hello, std::chrono::milliseconds timeout) {
    FramedConnection::Options options;
    options.body_bytes_max = kHelloBytesMax;
    connection_ = FramedConnection::Create(loop_, std::move(socket), options, shared_from_this());
    timer_ = loop_.RunAfter(timeout, [weak = weak_from_this()] {
      if (auto core = weak.lock()) core->HelloDone(absl::DeadlineExceededError("it doesn't answer the hello"));
    });
    absl::Status sent = connection_->Send(static_cast<uint32_t>(WorkerFrame::kHello), Payload(EncodeHello(hello)));
    if (!sent.ok()) HelloDone(std::move(sent));
  }

  void OnFrame(Frame frame) override {
    if (on_hello_) {
      HelloDone(CheckReply(frame));
      return;
    }
    if (held_back_.load(std::memory_order_relaxed)) FlushLater();
    absl::StatusOr<WorkerEvent> event = frame.type == static_cast<uint32_t>(WorkerFrame::kEvent)
                                            ? DecodeEvent(frame.body.view())
                                            : absl::StatusOr<WorkerEvent>(absl::InvalidArgumentError(
                                                  fmt::format("frame of unknown type {}", frame.type)));
    if (!event.ok()) {
      connection_->Close(event.status());
      return;
    }
    if (handlers_.has_value()) {
      handlers_->on_event(*std::move(event));
    } else {
      early_.push_back(*std::move(event));
    }
  }

  void OnClosed(absl::Status why) override {
    if (on_hello_) {
      HelloDone(why.ok() ? absl::UnavailableError("the connection ended during the hello") : std::move(why));
      return;
    }
    closed_ = std::move(why);
    if (handlers_.has_value()) std::exchange(handlers_, std::nullopt)->on_closed(*closed_);
  }

  void OnQueueDrained() override {
    MutexLock lock(mutex_);
    while (!waiting_.empty()) {
      const size_t bytes = waiting_.front().size();
      Payload body = waiting_.front();  // kept until it was taken
      if (!SendNow(std::move(body), WorkerChannel::When::kSoon)) return;
      waiting_.pop_front();
      waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    }
  }

  void Start(WorkerChannel::Handlers handlers) {
    loop_.Post([self = shared_from_this(), handlers = std::move(handlers)]() mutable {
      for (WorkerEvent& event : std::exchange(self->early_, {})) handlers.on_event(std::move(event));
      if (self->closed_.has_value()) {
        handlers.on_closed(*self->closed_);
      } else {
        self->handlers_ = std::move(handlers);
      }
    });
  }

  void Send(const SharedCommand& command, WorkerChannel::When when) {
    Payload body(command.encoded(EncodeCommandHead));
    if (std::shared_ptr<const std::string> data = CommandPayload(command.command())) body.Append(std::move(data));
    MutexLock lock(mutex_);
    if (waiting_.empty()) {
      Payload first = body;
      if (SendNow(std::move(first), when)) return;
    }
    waiting_bytes_.fetch_add(body.size(), std::memory_order_relaxed);
    waiting_.push_back(std::move(body));
  }

  size_t queued_bytes() const { return connection_->queued_bytes() + waiting_bytes_.load(std::memory_order_relaxed); }
  void Close() { connection_->Close(); }

 private:
  // False if the socket's queue is full. What a closed connection is given is dropped: OnClosed tells.
  bool SendNow(Payload body, WorkerChannel::When when) REQUIRES(mutex_) {
    FramedConnection::SendOptions options;
    switch (when) {
      case WorkerChannel::When::kSoon:
        options.when = FramedConnection::When::kSoon;
        break;
      case WorkerChannel::When::kNow:
        options.when = FramedConnection::When::kNow;
        break;
      case WorkerChannel::When::kWithNext:
        options.when = FramedConnection::When::kFlush;
        break;
    }
    held_back_.store(when == WorkerChannel::When::kWithNext, std::memory_order_relaxed);
    sends_.fetch_add(1, std::memory_order_relaxed);
    absl::Status sent =
        connection_->Send(static_cast<uint32_t>(WorkerFrame::kCommand), std::move(body), std::move(options));
    return sent.code() != absl::StatusCode::kResourceExhausted;
  }

  // Not by a timer from the moment that something is held back: this thread would have to be woken for it, and here it
  // is awake. While commands come, each takes along what was held back before it.
  void FlushLater() {
    if (std::exchange(flush_timer_set_, true)) return;
    loop_.RunAfter(kHoldBack, [weak = weak_from_this(), sends = sends_.load(std::memory_order_relaxed)] {
      auto core = weak.lock();
      if (core == nullptr) return;
      core->flush_timer_set_ = false;
      if (!core->held_back_.load(std::memory_order_relaxed)) return;
      if (core->sends_.load(std::memory_order_relaxed) != sends) return core->FlushLater();
      core->connection_->Flush();
    });
  }

  absl::Status CheckReply(const Frame& frame) {
    if (frame.type != static_cast<uint32_t>(WorkerFrame::kHelloReply)) {
      return absl::InvalidArgumentError("it isn't a worker: its first frame is no answer to the hello");
    }
    absl::StatusOr<WorkerHelloReply> reply = DecodeHelloReply(frame.body.view());
    if (!reply.ok()) return reply.status();
    if (!reply->status.ok()) return reply->status;
    if (reply->protocol_version != kWorkerProtocolVersion) {
      return absl::FailedPreconditionError(
          fmt::format("it speaks version {} of the worker protocol, this proxy {}: run the same build on both",
                      reply->protocol_version, kWorkerProtocolVersion));
    }
    if (reply->worker != worker_) return absl::FailedPreconditionError("another worker answers there");
    return absl::OkStatus();
  }

  void HelloDone(absl::Status status) {
    Ready done = std::exchange(on_hello_, nullptr);
    if (!done) return;
    loop_.Cancel(timer_);
    if (status.ok()) {
      connection_->set_body_bytes_max(FramedConnection::Options().body_bytes_max);
    } else if (connection_ != nullptr) {
      connection_->Close(status);
    }
    done(std::move(status));
  }

  EventLoop& loop_;
  const WorkerId worker_;
  std::shared_ptr<FramedConnection> connection_;  // set before anybody else sees this
  // Loop's thread.
  Ready on_hello_;
  EventLoop::TimerId timer_;
  std::optional<WorkerChannel::Handlers> handlers_;
  std::vector<WorkerEvent> early_;  // before Start
  std::optional<absl::Status> closed_;
  bool flush_timer_set_ = false;

  std::atomic<bool> held_back_{false};  // the last command waits for the next one
  std::atomic<uint64_t> sends_{0};
  Mutex mutex_;
  std::deque<Payload> waiting_ GUARDED_BY(mutex_);
  std::atomic<size_t> waiting_bytes_{0};
};

class SocketWorkerChannel : public WorkerChannel {
 public:
  explicit SocketWorkerChannel(std::shared_ptr<ChannelCore> core) : core_(std::move(core)) {}
  ~SocketWorkerChannel() override { core_->Close(); }
  void Start(Handlers handlers) override { core_->Start(std::move(handlers)); }
  void Send(std::shared_ptr<const SharedCommand> command, When when) override { core_->Send(*command, when); }
  size_t queued_bytes() const override { return core_->queued_bytes(); }
  void Close() override { core_->Close(); }

 private:
  const std::shared_ptr<ChannelCore> core_;
};

// Tries the worker's addresses in turn. Lives in its own callbacks, on the loop's thread.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(const SocketConnector::Options& options, EventLoop& loop, WorkerConnectRequest request,
          WorkerConnector::Done done)
      : options_(options), loop_(loop), request_(std::move(request)), done_(std::move(done)) {}

  void TryNext() {
    if (next_ == request_.worker.command_addresses.size()) {
      Fail();
      return;
    }
    const std::string& text = request_.worker.command_addresses[next_++];
    absl::StatusOr<Address> address = Address::Parse(text);
    if (!address.ok()) {
      Note(text, address.status());
      TryNext();
      return;
    }
    switchtower::Connect(loop_, *address, options_.timeout,
                         [self = shared_from_this(), text](absl::StatusOr<UniqueFd> socket) {
                           if (socket.ok()) {
                             self->SayHello(text, *std::move(socket));
                           } else {
                             self->Note(text, socket.status());
                             self->TryNext();
                           }
                         });
  }

 private:
  void SayHello(const std::string& text, UniqueFd socket) {
    ControllerHello hello;
    hello.cluster_id = options_.cluster_id();
    hello.worker = request_.worker.id;
    hello.lease_secret = request_.secret;
    hello.home_epoch = request_.home_epoch;
    hello.controller = options_.controller;
    auto core = std::make_shared<ChannelCore>(loop_, request_.worker.id,
                                              [self = shared_from_this(), text](absl::Status status) {
                                                auto core = std::exchange(self->core_, nullptr);
                                                if (status.ok()) {
                                                  self->done_(std::make_unique<SocketWorkerChannel>(std::move(core)));
                                                } else {
                                                  self->Note(text, status);
                                                  self->TryNext();
                                                }
                                              });
    core_ = core;
    core->Open(std::move(socket), hello, options_.timeout);
  }
  void Note(const std::string& text, const absl::Status& status) {
    if (!problems_.empty()) problems_ += "; ";
    problems_ += fmt::format("{}: {}", text, std::string(status.message()));
  }
  void Fail() {
    if (problems_.empty()) problems_ = "it has no command address";
    loop_.RunAfter(options_.pause_before_failure,
                   [self = shared_from_this()] { self->done_(absl::UnavailableError(self->problems_)); });
  }

  const SocketConnector::Options options_;
  EventLoop& loop_;
  const WorkerConnectRequest request_;
  WorkerConnector::Done done_;
  size_t next_ = 0;
  std::shared_ptr<ChannelCore> core_;  // during the hello
  std::string problems_;
};

}  // namespace

void SocketConnector::Connect(WorkerConnectRequest request, Done done) {
  EventLoop& loop = *options_.loops[connections_++ % options_.loops.size()];
  auto attempt = std::make_shared<Attempt>(options_, loop, std::move(request), std::move(done));
  loop.Post([attempt] { attempt->TryNext(); });
}

}  // namespace switchtower
