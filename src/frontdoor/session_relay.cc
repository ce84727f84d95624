#include "frontdoor/session_relay.h"

#include <utility>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "frontdoor/metadata_keys.h"

namespace switchtower {
namespace {

// UNAVAILABLE, as for any proxy that is gone: what the session had is lost with its home, and a new one may be had.
absl::Status HomeLost(const std::string& home, const grpc::Status& status) {
  return absl::UnavailableError(
      fmt::format("the proxy at {}, home of the shared slices, ended this session: {}; its arrays are gone with it: "
                  "start the program again, the slices get another home then",
                  home, status.ok() ? "it closed the stream" : status.error_message()));
}

absl::Status HomeRefused(const std::string& home, const grpc::Status& status) {
  const auto code = status.ok() ? absl::StatusCode::kUnavailable : static_cast<absl::StatusCode>(status.error_code());
  return absl::Status(code, fmt::format("the proxy at {}, home of the shared slices, can't be reached or takes no "
                                        "session from this one: {}",
                                        home, status.error_message()));
}

}  // namespace

std::shared_ptr<SessionRelay> SessionRelay::Start(std::shared_ptr<const HomeDoor> home, const std::string& metadata,
                                                  const std::string& client, std::weak_ptr<RelayedStream> stream) {
  std::shared_ptr<SessionRelay> relay(new SessionRelay(std::move(home), std::move(stream)));
  relay->self_ = relay;
  relay->context_.AddMetadata(kSessionMetadataKey, metadata);
  relay->context_.AddMetadata(kRelayedForKey, client);
  relay->home_->stub->async()->IfrtSession(&relay->context_, relay.get());
  relay->AddHold();  // for reads and writes that begin outside of gRPC's reactions
  relay->StartCall();
  return relay;
}

void SessionRelay::Forward(IfrtRequest request, Task forwarded) {
  const uint64_t op = request.request_metadata().op_id();
  const uint64_t user_context = request.request_metadata().user_context_id();
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    ended = ended_;
    if (ended.ok()) unanswered_.emplace(op, user_context);
    if (!closed_) {
      writes_.push_back({std::move(request), std::move(forwarded)});
      if (writes_.size() == 1) StartWriteLocked();
      return;
    }
  }
  if (!ended.ok()) Fail(op, user_context, ended);
  forwarded();
}

void SessionRelay::StartWriteLocked() {
  // More to come: let gRPC gather. The first goes out by itself, or the metadata would wait for the second.
  grpc::WriteOptions options;
  if (wrote_ && writes_.size() > 1) options.set_buffer_hint();
  wrote_ = true;
  StartWrite(&writes_.front().request, options);
}

void SessionRelay::OnWriteDone(bool ok) {
  Task forwarded;
  {
    MutexLock lock(mutex_);
    forwarded = std::move(writes_.front().forwarded);
    writes_.pop_front();
    if (!ok) CloseLocked();
    if (!closed_ && !writes_.empty()) StartWriteLocked();
  }
  forwarded();
}

void SessionRelay::OnDrained() {
  MutexLock lock(mutex_);
  if (reading_) {
    drained_ = true;
  } else {
    StartReadLocked();
  }
}

void SessionRelay::StartReadLocked() {
  if (closed_) return;
  reading_ = true;
  drained_ = false;
  StartRead(&response_);
}

void SessionRelay::OnReadInitialMetadataDone(bool ok) {
  uint64_t session = 0, buffers = 0;
  const auto& metadata = context_.GetServerInitialMetadata();
  const auto read = [&](const char* key, uint64_t* number) {
    auto it = metadata.find(key);
    return it != metadata.end() && absl::SimpleAtoi(absl::string_view(it->second.data(), it->second.size()), number);
  };
  if (!ok || !read(kRelayedSessionKey, &session) || !read(kRelayedBuffersKey, &buffers) ||
      (session != 0 && buffers == 0)) {
    MutexLock lock(mutex_);
    return CloseLocked();  // no cancel: the status that is about to come tells why
  }
  opened_ = true;
  if (auto stream = stream_.lock()) stream->RelayOpened(session, buffers);
  MutexLock lock(mutex_);
  StartReadLocked();
}

void SessionRelay::OnReadDone(bool ok) {
  bool more = false;
  if (ok) {
    {
      MutexLock lock(mutex_);
      unanswered_.erase(response_.response_metadata().op_id());
    }
    if (auto stream = stream_.lock()) {
      stream->Send(std::move(response_));
      more = stream->HasRoom();
    }
  }
  MutexLock lock(mutex_);
  reading_ = false;
  if (!ok) return CloseLocked();
  if (more || drained_) StartReadLocked();
}

void SessionRelay::OnDone(const grpc::Status& status) {
  const absl::Status why = opened_ ? HomeLost(home_->name, status) : HomeRefused(home_->name, status);
  std::deque<Outgoing> left;
  absl::flat_hash_map<uint64_t, uint64_t> unanswered;
  {
    MutexLock lock(mutex_);
    ended_ = why;
    left.swap(writes_);
    unanswered.swap(unanswered_);
  }
  for (Outgoing& outgoing : left) outgoing.forwarded();
  for (const auto& [op, user_context] : unanswered) Fail(op, user_context, why);
  if (auto stream = stream_.lock()) stream->RelayEnded(opened_, why);
  const std::shared_ptr<SessionRelay> self = std::move(self_);  // may be the last
}

void SessionRelay::Cancel() {
  context_.TryCancel();
  MutexLock lock(mutex_);
  CloseLocked();
}

void SessionRelay::CloseLocked() {
  if (!std::exchange(closed_, true)) RemoveHold();
}

void SessionRelay::Fail(uint64_t op, uint64_t user_context, const absl::Status& why) {
  Replier(stream_, RequestContext{op, user_context}, std::make_shared<UserContextTable>()).Fail(why);
}

}  // namespace switchtower
