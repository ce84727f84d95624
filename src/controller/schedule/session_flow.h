// How many launches of a session are sent or queued and not yet ended, and what else is queued; the door stops
// reading the client's stream while there is too much (I-6). And its compiles, for people who ask what it waits for.
//
// Threads:  any. `resume` runs on the thread that ends a launch and must only post.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
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

  // The number is CompileEnded's.
  uint64_t CompileBegan() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    compiles_.emplace(++last_compile_, std::chrono::steady_clock::now());
    return last_compile_;
  }
  void CompileEnded(uint64_t number) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    compiles_.erase(number);
  }
  struct Compiles {
    size_t running = 0;
    std::chrono::steady_clock::time_point oldest;
  };
  Compiles compiles() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return {compiles_.size(), compiles_.empty() ? std::chrono::steady_clock::time_point() : compiles_.begin()->second};
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
  mutable Mutex mutex_;
  uint64_t last_compile_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::chrono::steady_clock::time_point> compiles_ GUARDED_BY(mutex_);
  size_t bound_ GUARDED_BY(mutex_) = 0;
  absl::AnyInvocable<void()> resume_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
