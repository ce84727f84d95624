#include "frontdoor/download_room.h"

#include <algorithm>
#include <utility>

namespace switchtower {

DownloadRoom::Place DownloadRoom::Take(int64_t bytes) {
  // What a client asks for has no bound, and many of them have a sum.
  bytes = std::clamp<int64_t>(bytes, 0, bytes_max_);
  MutexLock lock(mutex_);
  bytes_ += bytes;
  ++places_;
  return Place(this, [weak = weak_from_this(), bytes](const void*) {
    if (auto self = weak.lock()) self->Leave(bytes);
  });
}

void DownloadRoom::Leave(int64_t bytes) {
  absl::AnyInvocable<void()> then;
  {
    MutexLock lock(mutex_);
    bytes_ -= bytes;
    --places_;
    if (!FullLocked()) then = std::exchange(not_full_, nullptr);
  }
  if (then) then();
}

bool DownloadRoom::full() const {
  MutexLock lock(mutex_);
  return FullLocked();
}

void DownloadRoom::WhenNotFull(absl::AnyInvocable<void()> then) {
  {
    MutexLock lock(mutex_);
    if (FullLocked()) {
      not_full_ = std::move(then);
      return;
    }
  }
  then();
}

void DownloadRoom::Close() {
  absl::AnyInvocable<void()> then;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    then = std::exchange(not_full_, nullptr);
  }
  if (then) then();
}

}  // namespace switchtower
