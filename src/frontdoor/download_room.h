// What a session's downloads hold in this process: each from the request for it until its client has let go of it and
// nobody sends it any more. While that is too much the session's stream isn't read on; the client fetches and lets go
// beside the stream, so room comes back.
//
// Place:      frontdoor; in HostBufferStore.
// Threads:    any. `then` runs on the thread that lets go of a download.
// Lifetime:   places may outlive it.
// Invariants: D-1 one download is always let in, however large: it may be what the client's functions wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace switchtower {

class DownloadRoom : public std::enable_shared_from_this<DownloadRoom> {
 public:
  explicit DownloadRoom(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Taken until the last copy of it is gone.
  using Place = std::shared_ptr<const void>;
  Place Take(int64_t bytes) EXCLUDES(mutex_);

  bool full() const EXCLUDES(mutex_);
  // Runs `then` once it isn't full, or at Close. One call at a time.
  void WhenNotFull(absl::AnyInvocable<void()> then) EXCLUDES(mutex_);
  void Close() EXCLUDES(mutex_);

 private:
  bool FullLocked() const REQUIRES(mutex_) { return !closed_ && places_ > 1 && bytes_ >= bytes_max_; }
  void Leave(int64_t bytes) EXCLUDES(mutex_);

  const int64_t bytes_max_;
  mutable Mutex mutex_;
  int64_t bytes_ GUARDED_BY(mutex_) = 0;
  size_t places_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
  absl::AnyInvocable<void()> not_full_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
