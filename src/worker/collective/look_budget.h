// How often a thread looks for what it waits for before it sleeps, learnt from the waits before: looking is the fastest
// where the others come soon, and keeps a core from them where they don't. Grown and shrunk as the kernel's haltpoll
// does its polling (Documentation/virt/guest-halt-polling.rst).
//
// Place:    worker/collective; one in each engine.
// Threads:  any. Updates may be lost, which costs a little learning.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace switchtower {

class LookBudget {
 public:
  static constexpr int kMin = 8;
  static constexpr int kMax = 256;
  // A wait that is shorter would rather have gone on looking.
  static constexpr std::chrono::microseconds kShortWait{200};

  int looks() const { return looks_.load(std::memory_order_relaxed); }
  // After a wait that looking alone didn't end.
  void Slept(std::chrono::nanoseconds waited) {
    const int looks = looks_.load(std::memory_order_relaxed);
    looks_.store(waited < kShortWait ? std::min(2 * looks, kMax) : std::max(looks / 2, kMin),
                 std::memory_order_relaxed);
  }

 private:
  std::atomic<int> looks_{kMax};
};

}  // namespace switchtower
