// First come, first served. Nothing is held back for a better choice, so launches leave as early as they can.
#pragma once

#include "controller/schedule/launch_policy.h"

namespace switchtower {

class FifoPolicy : public LaunchPolicy {
 public:
  size_t Choose(int64_t, absl::Span<const LaunchCandidate> candidates) const override {
    return FirstOf(candidates,
                   [](const LaunchCandidate& a, const LaunchCandidate& b) { return a.arrival < b.arrival; });
  }
};

}  // namespace switchtower
