// When to tell the controller which launches have ended. A watermark says all that the ones before it said, and each
// costs both sides a wake-up, so it waits a while: the shorter the more launches the controller should know of,
// measured by those that are still here; and not at all if somebody waits for one of them.
//
//   ends:   ||||||||||||||||||||||||
//   ticks:     |     |     |     |     |     of the clock, so the same for all workers of a machine: the controller,
//   told:   |  |     |     |     |           woken by the first of them, finds what the others say of the same launches
//
// What ends when nothing was told for a while is told at once.
//
// Place:   worker/agent; pure, no clock of its own.
// Threads: the caller's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "worker_api/events.h"

namespace switchtower {

class WatermarkPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // More has ended. If not empty: come back at that time, with Take.
  std::optional<Time> OnEnded(const Watermark& watermark, Time now) {
    watermark_ = watermark;
    ++untold_;
    // A controller that sends launches ahead has room for more long before the worker is idle.
    const bool many = untold_ * kOfAhead >= watermark.ahead;
    const Time due = watermark.awaited ? now : std::max(now, TickAfter(told_at_, many ? kPause : kLongPause));
    if (due_.has_value() && *due_ <= due) return std::nullopt;
    due_ = due;
    return due;
  }

  // Empty if another visit has told it, or will.
  std::optional<Watermark> Take(Time due, Time now) {
    if (due_ != due) return std::nullopt;
    due_.reset();
    untold_ = 0;
    told_at_ = now;
    return watermark_;
  }

 private:
  static constexpr std::chrono::milliseconds kPause{1}, kLongPause{5};
  static constexpr uint64_t kOfAhead = 4;

  static Time TickAfter(Time time, std::chrono::nanoseconds tick) {
    return time + (tick - time.time_since_epoch() % tick);
  }

  Watermark watermark_;
  uint64_t untold_ = 0;
  Time told_at_;
  std::optional<Time> due_;  // of the visit that counts
};

}  // namespace switchtower
