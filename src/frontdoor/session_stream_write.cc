// The writing half of a session's stream, and its end, which waits for the writes.
#include <chrono>
#include <utility>

#include "frontdoor/session_stream.h"

namespace switchtower {
namespace {

// For answers that nobody waits for. A timer of gRPC's costs several wake-ups, so it must be rare beside the launches.
constexpr std::chrono::milliseconds kHoldBack{100};
// Answers of a session's home that are read before the client has taken those before.
constexpr size_t kUnwrittenMax = 64;

}  // namespace

bool SessionStream::HasRoom() {
  MutexLock lock(mutex_);
  return answers_.due_count() < kUnwrittenMax;
}

void SessionStream::Send(IfrtResponse response) {
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    if (broken_ || finished_) return;
    answers_.Push(std::move(response));
    if (relay_ != nullptr) answers_.Release();  // the home has held it back
    WriteOnLocked(beginning);
  }
  Begin(beginning);
}

void SessionStream::WriteOnLocked(Beginning& beginning) {
  if (writing_ || finished_) return;
  if (!answers_.due()) {
    if (answers_.holds_back()) ReleaseLaterLocked();
    return;
  }
  writing_ = beginning.write = true;
  ++beginning_;
  answer_ = answers_.Take();
  // More to come: let gRPC gather. The first write must go out by itself (gRPC holds back the initial metadata,
  // and with it the write, otherwise), and so must the last of a burst.
  write_options_ = grpc::WriteOptions();
  if (std::exchange(wrote_, true) && answers_.due()) write_options_.set_buffer_hint();
}

void SessionStream::ReleaseLaterLocked() {
  if (std::exchange(alarm_set_, true)) return;
  // A new one each time: the callback of the last one may be about to return.
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(std::chrono::system_clock::now() + kHoldBack, [weak = weak_from_this()](bool) {
    auto self = weak.lock();
    if (self == nullptr) return;
    Beginning beginning;
    {
      MutexLock lock(self->mutex_);
      self->alarm_set_ = false;
      self->answers_.Release();
      self->WriteOnLocked(beginning);
    }
    self->Begin(beginning);
  });
}

void SessionStream::OnWriteDone(bool ok) {
  auto self = shared_from_this();  // finishing may let OnDone run before this returns
  std::shared_ptr<SessionRelay> relay;
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) {
      broken_ = true;
      answers_.Clear();
    }
    WriteOnLocked(beginning);
    if (answers_.bytes() < door_.unread_answer_bytes_max && gate_.OnRelease(ReadGate::Hold::kAnswers)) {
      ReadOnLocked(beginning);
    }
    if (!beginning.write) {
      relay = relay_;
      FinishIfIdleLocked();
    }
  }
  Begin(beginning);
  if (relay != nullptr) relay->OnDrained();
}

void SessionStream::End(grpc::Status status) {
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    if (ending_.has_value()) return;
    ending_ = std::move(status);
    answers_.Release();
    WriteOnLocked(beginning);
    FinishIfIdleLocked();
  }
  Begin(beginning);
}

void SessionStream::FinishIfIdleLocked() {
  if (!ending_.has_value() || finished_ || writing_ || beginning_ > 0) return;
  finished_ = true;
  Finish(*ending_);
}

}  // namespace switchtower
