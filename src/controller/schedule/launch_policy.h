// Which session's next operation goes first (S-4).
//
// Place:  controller/schedule; policies are pure functions. Once an operation was sent its place is final.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "types/ids.h"

namespace switchtower {

// The head of one session's queue; everything that it depends on is sequenced already.
struct LaunchCandidate {
  SessionId session;
  uint64_t arrival = 0;        // smaller came earlier
  uint64_t launches_sent = 0;  // by this session so far
};

class LaunchPolicy {
 public:
  virtual ~LaunchPolicy() = default;
  // An index into `candidates`, which aren't empty.
  virtual size_t Choose(absl::Span<const LaunchCandidate> candidates) const = 0;
};

// First come, first served.
class FifoPolicy : public LaunchPolicy {
 public:
  size_t Choose(absl::Span<const LaunchCandidate> candidates) const override {
    size_t first = 0;
    for (size_t i = 1; i < candidates.size(); ++i) {
      if (candidates[i].arrival < candidates[first].arrival) first = i;
    }
    return first;
  }
};

}  // namespace switchtower
