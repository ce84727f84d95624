// A program's call of a collective until the collective ends: waited for on the program's own thread for a short while,
// since that is by far the fastest where all ranks come at about the same time, and by a callback from then on, since a
// thread that stays blocked could be the one that another rank's program needs.
//
// Place:    worker/collective, for the FFI handlers.
// Threads:  Complete from any thread, once; the rest on the program's.
// Lifetime: shared by the handler and the engine's `done`.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/fabric.h"

namespace switchtower {

class CallWait {
 public:
  explicit CallWait(Fabric& fabric) : fabric_(fabric) {}

  void Complete(absl::Status status) EXCLUDES(mutex_) {
    absl::AnyInvocable<void(absl::Status)> later;
    {
      MutexLock lock(mutex_);
      status_ = std::move(status);
      done_.store(true);
      later = std::move(later_);
      changed_.NotifyAll();
    }
    if (!later) return;
    fabric_.UnwantFast();
    later(status_);
  }

  // True if the collective has ended, within `budget`. `peers`: other processes take part, so this thread can fetch
  // their messages.
  bool Await(bool peers, std::chrono::nanoseconds budget) EXCLUDES(mutex_) {
    if (done_.load()) return true;
    const auto end = std::chrono::steady_clock::now() + budget;
    if (peers && fabric_.WaitFast([this] { return done_.load(); }, budget)) return true;
    // Other ranks of this process go on meanwhile, perhaps on this core.
    while (std::chrono::steady_clock::now() < end - budget / 2) {
      if (done_.load()) return true;
      ::sched_yield();
    }
    MutexLock lock(mutex_);
    while (!done_.load()) {
      const auto left = end - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }
  bool done() const { return done_.load(); }
  // Once done.
  const absl::Status& status() const { return status_; }

  // From now on `later` is told, on the thread that calls Complete; at once if it was called.
  void Then(absl::AnyInvocable<void(absl::Status)> later) EXCLUDES(mutex_) {
    bool waits = false;
    {
      MutexLock lock(mutex_);
      if (!done_.load()) {
        later_ = std::move(later);
        waits = true;
      }
    }
    if (!waits) return later(status_);
    fabric_.WantFast();
  }

 private:
  Fabric& fabric_;
  std::atomic<bool> done_{false};
  absl::Status status_;  // written before done_ is set
  Mutex mutex_;
  CondVar changed_;
  absl::AnyInvocable<void(absl::Status)> later_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
