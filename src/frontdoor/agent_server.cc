#include "frontdoor/agent_server.h"

#include <atomic>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/match.h"
#include "base/log.h"
#include "base/net/address.h"
#include "base/net/framed_connection.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr std::chrono::seconds kHelloTimeout(10);
// One call's results; the worker's handler bounds them too.
constexpr uint64_t kFrameBytesMax = (uint64_t{1} << 31) + (1 << 20);
// An agent's threads each ask one at a time.
constexpr int kMemoryQuestionsMax = 1000;

}  // namespace

// One agent, on the loop's thread but for AgentLink's methods.
class AgentServer::Connection final : public FramedConnection::Handler,
                                      public AgentLink,
                                      public std::enable_shared_from_this<Connection> {
 public:
  Connection(AgentServer& server, absl::Status refusal) : server_(server), refusal_(std::move(refusal)) {}

  void Open(UniqueFd socket) {
    FramedConnection::Options options;
    options.body_bytes_max = kHelloBytesMax;
    connection_ = FramedConnection::Create(server_.loop_, std::move(socket), options, shared_from_this());
    hello_timer_ = server_.loop_.RunAfter(kHelloTimeout, [self = shared_from_this()] {
      if (self->desk_ == nullptr) self->Close(absl::DeadlineExceededError("no hello came"));
    });
  }

  void OnFrame(Frame frame) override {
    absl::StatusOr<AgentMessage> message = DecodeAgentMessage(frame.type, frame.body.view());
    if (!message.ok()) return Close(message.status());
    if (auto* hello = std::get_if<AgentHello>(&*message)) return OnHello(*hello);
    if (desk_ == nullptr) return Close(absl::FailedPreconditionError("an agent says hello first"));
    if (auto* answer = std::get_if<AgentReturn>(&*message)) {
      desk_->Returned(std::move(*answer));
    } else if (auto* retire = std::get_if<AgentRetire>(&*message)) {
      desk_->Retire(retire->callbacks);
    } else if (auto* ask = std::get_if<AgentAskMemory>(&*message)) {
      AskMemory(ask->request);
    }
  }

  void OnClosed(absl::Status why) override {
    server_.loop_.Cancel(hello_timer_);
    if (desk_ != nullptr) desk_->Detach(this);
    LogDebug("agent's connection ended: {}", why.ToString());
    server_.Forget(this);
  }

  void Send(AgentFrame frame) override {
    const absl::Status status = connection_->Send(frame.type, std::move(frame.body));
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      Close(absl::ResourceExhaustedError("the client's agent doesn't read what it is sent"));
    }
  }
  void Close(const absl::Status& why) override { connection_->Close(why); }

 private:
  void OnHello(const AgentHello& hello) {
    if (desk_ != nullptr) return Close(absl::FailedPreconditionError("an agent says hello once"));
    const absl::Status status = refusal_.ok() ? Attach(hello) : refusal_;
    if (status.ok()) return;
    LogWarn("client's agent refused: {}", std::string(status.message()));
    Send(WelcomeFrame(status));
    connection_->CloseWhenWritten(status);
  }

  // Each question goes to all workers of the session.
  void AskMemory(uint64_t request) {
    if (memory_questions_.fetch_add(1) >= kMemoryQuestionsMax) {
      return Close(absl::ResourceExhaustedError("an agent asks on without waiting for what its devices hold"));
    }
    desk_->ReadMemory([self = shared_from_this(), request](std::vector<DeviceMemory> devices) {
      --self->memory_questions_;
      self->Send(MemoryFrame(request, devices));
    });
  }

  absl::Status Attach(const AgentHello& hello) {
    if (hello.version != kAgentProtocolVersion) {
      return absl::FailedPreconditionError(fmt::format(
          "the client's package speaks version {} of the agent's protocol and this proxy version {}: install "
          "the `switchtower` package of the proxy's release",
          hello.version, kAgentProtocolVersion));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<AgentDesk> desk, server_.Find(hello.token));
    RETURN_IF_ERROR(desk->Attach(shared_from_this()));
    desk_ = std::move(desk);
    connection_->set_body_bytes_max(kFrameBytesMax);
    return absl::OkStatus();
  }

  AgentServer& server_;
  const absl::Status refusal_;
  std::shared_ptr<FramedConnection> connection_;
  std::shared_ptr<AgentDesk> desk_;  // once it is in
  std::atomic<int> memory_questions_ = 0;
  EventLoop::TimerId hello_timer_;
};

AgentServer::~AgentServer() = default;

void AgentServer::Stop() {
  for (const std::shared_ptr<Connection>& connection : connections_) {
    connection->Close(absl::CancelledError("the server is stopping"));
  }
}

std::shared_ptr<AgentDesk> AgentServer::Open(SessionId session, AgentDesk::MemorySource memory) {
  auto desk = std::make_shared<AgentDesk>(session, std::move(memory));
  MutexLock lock(mutex_);
  desks_[session.value] = desk;
  return desk;
}

void AgentServer::Remove(SessionId session) {
  MutexLock lock(mutex_);
  desks_.erase(session.value);
}

bool AgentServer::Knows(SessionId session) const {
  MutexLock lock(mutex_);
  return desks_.contains(session.value);
}

absl::StatusOr<std::shared_ptr<AgentDesk>> AgentServer::Find(std::string_view token) const {
  MutexLock lock(mutex_);
  for (const auto& [session, desk] : desks_) {
    if (SecretsEqual(desk->token(), token)) return desk;
  }
  return absl::PermissionDeniedError("no session here has this token");
}

void AgentServer::Accept(UniqueFd socket) { Open(std::move(socket), absl::OkStatus()); }

void AgentServer::Refuse(UniqueFd socket, absl::Status why) { Open(std::move(socket), std::move(why)); }

void AgentServer::Open(UniqueFd socket, absl::Status refusal) {
  auto connection = std::make_shared<Connection>(*this, std::move(refusal));
  connections_.insert(connection);
  connection->Open(std::move(socket));
}

void AgentServer::Forget(Connection* connection) {
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (it->get() != connection) continue;
    connections_.erase(it);
    return;
  }
}

}  // namespace switchtower
