#include "worker/agent/worker_server.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/net/framed_connection.h"
#include "base/status_macros.h"
#include "wire/worker/hello.h"
#include "worker/agent/socket_port.h"
#include "worker/agent/worker.h"

namespace switchtower {

// One controller's connection, on the loop's thread.
class WorkerServer::Connection : public FramedConnection::Handler, public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(WorkerServer& server) : server_(server) {}

  void Open(UniqueFd socket) {
    FramedConnection::Options options;
    options.body_bytes_max = kHelloBytesMax;
    connection_ = FramedConnection::Create(*server_.loop_, std::move(socket), options, shared_from_this());
    Expect(server_.options_.hello_timeout, absl::DeadlineExceededError("no hello came"));
  }

  void OnFrame(Frame frame) override {
    if (port_ != nullptr && frame.type == static_cast<uint32_t>(WorkerFrame::kCommand)) {
      return port_->OnCommandFrame(frame.body.view());
    }
    if (hello_.has_value() || frame.type != static_cast<uint32_t>(WorkerFrame::kHello)) {
      return Close(absl::InvalidArgumentError("a frame that isn't expected here"));
    }
    absl::StatusOr<ControllerHello> hello = DecodeHello(frame.body.view());
    if (!hello.ok()) return Close(hello.status());
    hello_ = *std::move(hello);
    server_.loop_->Cancel(timer_);
    Judge(/*first=*/true);
  }

  void OnClosed(absl::Status why) override {
    server_.loop_->Cancel(timer_);
    if (port_ != nullptr) port_->OnClosed(std::move(why));
    server_.Forget(this);
  }

  void Judge(bool first) {
    if (!hello_.has_value() || port_ != nullptr || refused_) return;
    LeaseFence::Decision decision = server_.fence_.Judge(*hello_);
    if (decision.kind == LeaseFence::Decision::Kind::kAdmit && server_.worker_ == nullptr) {
      decision = {LeaseFence::Decision::Kind::kWait, absl::UnavailableError("this worker is still starting")};
    }
    switch (decision.kind) {
      case LeaseFence::Decision::Kind::kAdmit:
        server_.loop_->Cancel(timer_);
        return server_.Admit(shared_from_this());
      case LeaseFence::Decision::Kind::kRefuse:
        return Refuse(decision.why);
      case LeaseFence::Decision::Kind::kWait:
        if (first) {
          timer_ = server_.loop_->RunAfter(server_.options_.lease_grace, [self = shared_from_this()] {
            if (self->port_ != nullptr) return;
            const absl::Status why = self->server_.fence_.Judge(*self->hello_).why;
            self->Refuse(why.ok() ? absl::UnavailableError("this worker didn't start in time") : why);
          });
        }
    }
  }

  std::shared_ptr<SocketPort> Welcome() {
    port_ = std::make_shared<SocketPort>(*server_.loop_, connection_);
    connection_->set_body_bytes_max(FramedConnection::Options().body_bytes_max);
    Reply(absl::OkStatus());
    return port_;
  }

  void Refuse(const absl::Status& why) {
    if (std::exchange(refused_, true)) return;
    LogWarn("controller {} refused: {}", hello_->controller, why.ToString());
    Reply(why);
    connection_->CloseWhenWritten(why);
  }

  void Close(absl::Status why) { connection_->Close(std::move(why)); }
  const ControllerHello& hello() const { return *hello_; }

 private:
  void Expect(std::chrono::milliseconds timeout, absl::Status otherwise) {
    timer_ = server_.loop_->RunAfter(
        timeout, [self = shared_from_this(), otherwise = std::move(otherwise)] { self->Close(otherwise); });
  }

  void Reply(const absl::Status& status) {
    WorkerHelloReply reply;
    reply.status = status;
    reply.worker = server_.fence_.identity().value_or(WorkerId{});
    reply.num_devices = server_.options_.num_devices;
    reply.device_type = server_.options_.device_type;
    // If it can't be sent the connection has ended, and OnClosed says so.
    (void)connection_->Send(static_cast<uint32_t>(WorkerFrame::kHelloReply), Payload(EncodeHelloReply(reply)));
  }

  WorkerServer& server_;
  std::shared_ptr<FramedConnection> connection_;
  std::optional<ControllerHello> hello_;
  std::shared_ptr<SocketPort> port_;  // once admitted
  EventLoop::TimerId timer_;
  bool refused_ = false;
};

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Create(WorkerServerOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create("commands"));
  std::unique_ptr<WorkerServer> server(new WorkerServer(std::move(options), std::move(loop)));
  for (const std::string& address : server->options_.listen) RETURN_IF_ERROR(server->ListenOn(address));
  return server;
}

WorkerServer::WorkerServer(WorkerServerOptions options, std::unique_ptr<EventLoop> loop)
    : options_(std::move(options)), loop_(std::move(loop)) {}

WorkerServer::~WorkerServer() { Stop(); }

absl::Status WorkerServer::ListenOn(const std::string& text) {
  ASSIGN_OR_RETURN(Address address, Address::Parse(text));
  absl::Status status;
  loop_->RunAndWait([&] {
    absl::StatusOr<std::unique_ptr<Listener>> listener =
        Listener::Create(*loop_, address, [this](UniqueFd socket) { Accept(std::move(socket)); });
    if (!listener.ok()) {
      status = listener.status();
      return;
    }
    Address reachable = (*listener)->address();
    if (!reachable.is_unix() && !options_.advertise_host.empty()) reachable.host = options_.advertise_host;
    addresses_.push_back(reachable.ToString());
    listeners_.push_back(*std::move(listener));
  });
  return status;
}

void WorkerServer::Serve(Worker& worker) {
  loop_->RunAndWait([&] {
    worker_ = &worker;
    JudgeAll();
    Tick();
  });
}

void WorkerServer::SetIdentity(WorkerId worker, std::string cluster_id) {
  loop_->RunAndWait([&] {
    fence_.SetIdentity(worker, std::move(cluster_id));
    JudgeAll();
  });
}

void WorkerServer::SetAllowedLeases(std::vector<AllowedLease> leases) {
  loop_->RunAndWait([&] {
    fence_.SetAllowedLeases(std::move(leases));
    if (current_ != nullptr && !fence_.StillAllowed(current_->hello())) {
      current_->Close(absl::PermissionDeniedError("the controller's lease ended"));
    }
    JudgeAll();
  });
}

void WorkerServer::Stop() {
  loop_->RunAndWait([this] {
    stopped_ = true;
    listeners_.clear();
    // OnClosed forgets them, later.
    for (const auto& connection : connections_) connection->Close(absl::UnavailableError("the worker stops"));
  });
  loop_->Stop();
}

void WorkerServer::Accept(UniqueFd socket) {
  auto connection = std::make_shared<Connection>(*this);
  connections_.insert(connection);
  connection->Open(std::move(socket));
}

void WorkerServer::JudgeAll() {
  if (worker_ == nullptr) return;
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->Judge(/*first=*/false);
}

void WorkerServer::Admit(const std::shared_ptr<Connection>& connection) {
  fence_.Admitted(connection->hello());
  LogInfo("controller {} of epoch {} commands this worker now", connection->hello().controller,
          connection->hello().home_epoch);
  if (current_ != nullptr) current_->Close(absl::AbortedError("another controller took this worker over"));
  current_ = connection;
  worker_->Attach(connection->Welcome());
}

void WorkerServer::Forget(Connection* connection) {
  if (current_.get() == connection) current_ = nullptr;
  connections_.erase(connection->shared_from_this());
}

void WorkerServer::Tick() {
  if (stopped_ || options_.check_period.count() == 0) return;
  worker_->PublishStats();
  worker_->CheckLeftovers();
  loop_->RunAfter(options_.check_period, [this] { Tick(); });
}

}  // namespace switchtower
