// When launches have a device: from their start, or the end of the one before them if that is later, to their end.
//
// Place:    worker/exec.
// Threads:  any; launches of one device may end on several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace switchtower {

class DeviceClock {
 public:
  // Nanoseconds since the epoch; 0: not yet.
  struct Span {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };

  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  // A launch that was started at `started` ends at `now`.
  Span Ended(int64_t started, int64_t now) {
    int64_t before = last_end_.load(std::memory_order_relaxed);
    while (before < now && !last_end_.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
    const Span span{std::min(std::max(started, before), now), now};
    busy_.fetch_add(static_cast<uint64_t>(span.end_ns - span.begin_ns), std::memory_order_relaxed);
    return span;
  }
  // busy_ns() together with what the launch that was started at `started` has had until `now`.
  uint64_t BusyUntil(int64_t started, int64_t now) const {
    const int64_t begin = std::max(started, last_end_.load(std::memory_order_relaxed));
    return busy_ns() + static_cast<uint64_t>(std::max<int64_t>(0, now - begin));
  }
  uint64_t busy_ns() const { return busy_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> last_end_{0};
  std::atomic<uint64_t> busy_{0};
};

}  // namespace switchtower
