// Sessions of a higher priority first, then first come, first served. What was sent isn't called back: a launch of a
// high priority waits for at most what is ahead on its devices.
#pragma once

#include "controller/schedule/launch_policy.h"

namespace switchtower {

class PriorityPolicy : public LaunchPolicy {
 public:
  Needs needs() const override { return {.launch_times = true, .window_ns = kLateChoiceWindowNs}; }
  size_t Choose(int64_t, absl::Span<const LaunchCandidate> candidates) const override {
    return FirstOf(candidates, [](const LaunchCandidate& a, const LaunchCandidate& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.arrival < b.arrival;
    });
  }
};

}  // namespace switchtower
