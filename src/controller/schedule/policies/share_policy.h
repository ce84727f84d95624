// Device time in proportion to the sessions' weights: the session goes first that has had least for its weight
// (start-time fair queueing; DeviceTimeLedger keeps the account).
#pragma once

#include "controller/schedule/launch_policy.h"

namespace switchtower {

class SharePolicy : public LaunchPolicy {
 public:
  Needs needs() const override { return {.launch_times = true, .window_ns = kLateChoiceWindowNs}; }
  size_t Choose(int64_t, absl::Span<const LaunchCandidate> candidates) const override {
    return FirstOf(candidates, [](const LaunchCandidate& a, const LaunchCandidate& b) {
      return a.virtual_ns != b.virtual_ns ? a.virtual_ns < b.virtual_ns : a.arrival < b.arrival;
    });
  }
};

}  // namespace switchtower
