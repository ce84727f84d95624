#include "frontdoor/agent_relay.h"

#include <sys/epoll.h>

#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "base/log.h"
#include "base/net/address.h"
#include "base/net/peek_frame.h"
#include "wire/agent/agent_codec.h"

namespace switchtower {
namespace {

constexpr std::chrono::seconds kHelloTimeout(10);
constexpr std::chrono::seconds kConnectTimeout(10);

// The session that a hello asks for; 0 if it is none that can be read: AgentServer says what is wrong with it.
uint64_t SessionOf(const PeekedFrame& frame) {
  absl::StatusOr<AgentMessage> message = DecodeAgentMessage(frame.type, frame.body);
  const auto* hello = message.ok() ? std::get_if<AgentHello>(&*message) : nullptr;
  uint64_t session = 0;
  if (hello == nullptr || !absl::SimpleHexAtoi(hello->token.substr(0, hello->token.find(':')), &session)) return 0;
  return session;
}

}  // namespace

// A socket whose hello isn't there in whole yet.
class AgentRelay::Caller : private EventLoop::FdHandler {
 public:
  Caller(AgentRelay& relay, UniqueFd socket) : relay_(relay), socket_(std::move(socket)) {}
  ~Caller() override {
    relay_.loop_.Cancel(timer_);
    relay_.loop_.Remove(registration_);
  }
  bool Wait() {
    absl::StatusOr<EventLoop::Registration> registration = relay_.loop_.Add(socket_.get(), EPOLLIN | EPOLLRDHUP, this);
    if (!registration.ok()) return false;
    registration_ = *registration;
    timer_ = relay_.loop_.RunAfter(kHelloTimeout, [this] { relay_.Take(this); });
    return true;
  }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  void OnReady(uint32_t events) override {
    absl::StatusOr<std::optional<PeekedFrame>> frame = PeekFrame(socket_.get(), AgentServer::kHelloBytesMax);
    const bool ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (frame.ok() && !frame->has_value() && !ended) return;
    AgentRelay& relay = relay_;
    UniqueFd socket = relay.Take(this);  // this is gone
    relay.Lead(std::move(socket), frame.ok() && frame->has_value() ? SessionOf(**frame) : 0);
  }

  AgentRelay& relay_;
  UniqueFd socket_;
  EventLoop::Registration registration_;
  EventLoop::TimerId timer_;
};

AgentRelay::AgentRelay(EventLoop& loop, const RelayTable& relays, AgentServer& agents)
    : loop_(loop), relays_(relays), agents_(agents) {}

AgentRelay::~AgentRelay() = default;

void AgentRelay::Stop() {
  stopped_ = true;
  callers_.clear();
  joined_.clear();
}

void AgentRelay::Accept(UniqueFd socket) {
  if (relays_.size() == 0) return agents_.Accept(std::move(socket));
  auto caller = std::make_unique<Caller>(*this, std::move(socket));
  Caller* raw = caller.get();
  callers_.emplace(raw, std::move(caller));
  if (!raw->Wait()) Take(raw);
}

UniqueFd AgentRelay::Take(Caller* caller) {
  auto it = callers_.find(caller);
  std::unique_ptr<Caller> gone = std::move(it->second);
  callers_.erase(it);
  UniqueFd socket = gone->TakeSocket();
  return socket;
}

void AgentRelay::Lead(UniqueFd socket, uint64_t session) {
  const std::shared_ptr<const HomeDoor> home = relays_.Find(session);
  if (home == nullptr) return agents_.Accept(std::move(socket));
  Connect(loop_, home->address, kConnectTimeout,
          [this, session, agent = std::move(socket)](absl::StatusOr<UniqueFd> to_home) mutable {
            if (stopped_) return;
            if (to_home.ok()) return Join(session, std::move(agent), *std::move(to_home));
            LogWarn("agent of session {:016x} can't be brought to its home: {}", session,
                    std::string(to_home.status().message()));
            agents_.Refuse(std::move(agent), to_home.status());
          });
}

void AgentRelay::Join(uint64_t session, UniqueFd agent, UniqueFd home) {
  if (relays_.Find(session) == nullptr) return;  // ended meanwhile
  const uint64_t number = ++last_join_;
  auto pump = SocketPump::Create(loop_, std::move(agent), std::move(home), [this, number] { joined_.erase(number); });
  if (!pump.ok()) return LogWarn("agent of session {:016x}: {}", session, std::string(pump.status().message()));
  joined_.emplace(number, Joined{session, *std::move(pump)});
}

void AgentRelay::Drop(uint64_t session) {
  loop_.Post([this, session] {
    absl::erase_if(joined_, [session](const auto& joined) { return joined.second.session == session; });
  });
}

}  // namespace switchtower
