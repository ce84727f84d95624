#include "frontdoor/agent_desk.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/net/address.h"

namespace switchtower {
namespace {

constexpr size_t kSecretBytes = 16;
// jax's own words for a callback that raised, which programs and tests look for.
constexpr char kRaised[] = "CpuCallback error calling callback: ";
// A Python traceback is text for people.
constexpr size_t kErrorBytesMax = 64 * 1024;

absl::Status NoAgent() {
  return absl::FailedPreconditionError(
      "the program calls a Python function of its client, but the client's agent isn't attached: install the pip "
      "package `switchtower` in the client's environment (it attaches by itself) and see that its version fits");
}

absl::Status CheckResults(const ClientCall& call, size_t bytes) {
  int64_t expected = 0;
  for (const Shape& shape : call.results) expected = AddBytes(expected, PackedBytes(shape));
  if (expected == static_cast<int64_t>(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the client's agent answered a call with {} bytes instead of {}", bytes, expected));
}

// UNKNOWN: what a user's function raises is none of the faults that the runtime itself reports, and INTERNAL would
// read as a lost slice.
absl::Status Raised(const std::string& text) { return absl::UnknownError(kRaised + text.substr(0, kErrorBytesMax)); }

}  // namespace

AgentDesk::AgentDesk(SessionId session, MemorySource memory)
    : token_(fmt::format("{:016x}:{}", session.value, RandomHex(kSecretBytes))), memory_(std::move(memory)) {}

void AgentDesk::OnCall(ClientCall call) {
  std::shared_ptr<AgentLink> link;
  AgentFrame frame;
  {
    MutexLock lock(mutex_);
    link = link_;
    if (link != nullptr) {
      frame = CallFrame(++last_call_, call);
      call.data = nullptr;
      pending_.emplace(last_call_, std::move(call));
    }
  }
  if (link == nullptr) return call.answer(NoAgent());
  link->Send(std::move(frame));
}

void AgentDesk::Returned(AgentReturn answer) {
  ClientCall call;
  {
    MutexLock lock(mutex_);
    auto it = pending_.find(answer.call);
    if (it == pending_.end()) return;
    call = std::move(it->second);
    pending_.erase(it);
  }
  if (!answer.error.empty()) return call.answer(Raised(answer.error));
  if (absl::Status status = CheckResults(call, answer.data->size()); !status.ok()) return call.answer(status);
  call.answer(std::move(answer.data));
}

std::shared_ptr<const void> AgentDesk::Hold(absl::Span<const uint64_t> callbacks) {
  std::vector<uint64_t> held(callbacks.begin(), callbacks.end());
  {
    MutexLock lock(mutex_);
    for (uint64_t callback : held) ++callbacks_[callback].programs;
  }
  auto let_go = [self = shared_from_this(), held = std::move(held)](const void*) { self->LetGo(held); };
  return std::shared_ptr<const void>(this, std::move(let_go));
}

void AgentDesk::LetGo(const std::vector<uint64_t>& callbacks) {
  std::shared_ptr<AgentLink> link;
  std::vector<uint64_t> released;
  {
    MutexLock lock(mutex_);
    link = link_;
    for (uint64_t callback : callbacks) {
      auto it = callbacks_.find(callback);
      if (it == callbacks_.end() || --it->second.programs > 0) continue;
      if (it->second.retired) released.push_back(callback);
      callbacks_.erase(it);
    }
  }
  if (link != nullptr && !released.empty()) link->Send(ReleasedFrame(released));
}

void AgentDesk::Retire(const std::vector<uint64_t>& callbacks) {
  std::shared_ptr<AgentLink> link;
  std::vector<uint64_t> released;
  {
    MutexLock lock(mutex_);
    link = link_;
    for (uint64_t callback : callbacks) {
      auto it = callbacks_.find(callback);
      if (it == callbacks_.end()) {
        released.push_back(callback);
      } else {
        it->second.retired = true;
      }
    }
  }
  if (link != nullptr && !released.empty()) link->Send(ReleasedFrame(released));
}

absl::Status AgentDesk::Attach(std::shared_ptr<AgentLink> link) {
  MutexLock lock(mutex_);
  if (closed_) return absl::FailedPreconditionError("the session has ended");
  if (link_ != nullptr) return absl::AlreadyExistsError("the session has an agent already");
  link_ = std::move(link);
  link_->Send(WelcomeFrame(absl::OkStatus()));
  return absl::OkStatus();
}

void AgentDesk::Detach(const AgentLink* link) {
  {
    MutexLock lock(mutex_);
    if (link_.get() != link) return;
    link_ = nullptr;
  }
  FailAll(absl::CancelledError("the client's agent went away while a program waited for one of its functions"));
}

void AgentDesk::Close(const absl::Status& why) {
  std::shared_ptr<AgentLink> link;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    link = std::exchange(link_, nullptr);
  }
  if (link != nullptr) link->Close(why);
  FailAll(why);
}

void AgentDesk::FailAll(const absl::Status& why) {
  absl::flat_hash_map<uint64_t, ClientCall> pending;
  {
    MutexLock lock(mutex_);
    pending.swap(pending_);
  }
  for (auto& [number, call] : pending) call.answer(why);
}

}  // namespace switchtower
