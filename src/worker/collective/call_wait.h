// A program's call of a collective until the collective ends: waited for on the program's own thread for a while, since
// that is by far the fastest where the other ranks are on their way, and by a callback from then on, since a thread
// that stays blocked could be the one that another rank's program needs.
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
#include "worker/collective/exchange_engine.h"

namespace switchtower {

class CallWait {
 public:
  explicit CallWait(ExchangeEngine& engine) : engine_(engine) {}

  void Complete(absl::Status status) EXCLUDES(mutex_) {
    absl::AnyInvocable<void(absl::Status)> later;
    {
      MutexLock lock(mutex_);
      status_ = std::move(status);
      done_.store(true);
      later = std::move(later_);
      changed_.NotifyAll();
    }
    if (later) {
      engine_.fabric().UnwantFast();
      later(status_);
    } else {
      engine_.fabric().WakeFast();
    }
  }

  // True if the collective has ended within `budget`. `peers`: other processes take part, so this thread can fetch
  // their messages.
  bool Await(bool peers, std::chrono::nanoseconds budget) EXCLUDES(mutex_) {
    if (done_.load()) return true;
    const auto begin = std::chrono::steady_clock::now();
    const int looks = engine_.look_budget().looks();
    int looked = 0;
    const bool ended = (peers && engine_.AwaitMessages(
                                     [&] {
                                       ++looked;
                                       return done_.load();
                                     },
                                     looks, begin + budget)) ||
                       AwaitOthers(looks, looked, begin + budget);
    if (looked > looks) engine_.look_budget().Slept(std::chrono::steady_clock::now() - begin);
    return ended;
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
    engine_.fabric().WantFast();
  }

 private:
  // The wait of a thread that doesn't fetch messages, since the others are in this process or another thread does.
  bool AwaitOthers(int looks, int& looked, std::chrono::steady_clock::time_point end) EXCLUDES(mutex_) {
    for (; looked <= looks; ++looked) {
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

  ExchangeEngine& engine_;
  std::atomic<bool> done_{false};
  absl::Status status_;  // written before done_ is set
  Mutex mutex_;
  CondVar changed_;
  absl::AnyInvocable<void(absl::Status)> later_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
