// How many launches of a session are sent or queued and not yet ended, and what else is queued; the door stops
// reading the client's stream while there is too much (I-6).
//
// Threads:  any. `resume` runs on the thread that ends a launch and must only post.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace switchtower {

class SessionFlow {
 public:
  size_t in_flight() const { return in_flight_.load(std::memory_order_acquire); }
  void Began(size_t count = 1) { in_flight_.fetch_add(count, std::memory_order_acq_rel); }
  void Ended(size_t count = 1) EXCLUDES(mutex_) {
    if (count == 0) return;
    const size_t left = in_flight_.fetch_sub(count, std::memory_order_acq_rel) - count;
    if (waiting_.load(std::memory_order_acquire)) Resume(left);
  }
  // Runs `resume` once, at once if the number is below `bound` already.
  void WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      bound_ = bound;
      resume_ = std::move(resume);
      waiting_.store(true, std::memory_order_release);
    }
    Resume(in_flight());
  }

 private:
  void Resume(size_t left) EXCLUDES(mutex_) {
    absl::AnyInvocable<void()> resume;
    {
      MutexLock lock(mutex_);
      if (!resume_ || left >= bound_) return;
      resume = std::move(resume_);
      resume_ = nullptr;
      waiting_.store(false, std::memory_order_release);
    }
    resume();
  }

  std::atomic<size_t> in_flight_{0};
  std::atomic<bool> waiting_{false};
  Mutex mutex_;
  size_t bound_ GUARDED_BY(mutex_) = 0;
  absl::AnyInvocable<void()> resume_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
