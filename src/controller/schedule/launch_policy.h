// Which of the launches that could be sent goes first (S-4). Once it was sent its place is final, on all devices.
//
// Place:  controller/schedule; policies are pure functions of (now, candidates), one file each in policies/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "types/ids.h"

namespace switchtower {

// An operation whose producers are all sequenced already. Launches mostly; where memory is limited also others that
// need some.
struct LaunchCandidate {
  SessionId session;
  uint64_t arrival = 0;       // smaller came earlier
  int32_t priority = 0;       // of the session; larger goes first
  double virtual_ns = 0;      // device time that the session has had, divided by its weight
  int64_t start_ns = 0;       // when its inputs and its devices are expected to be free; 0: not forecast
  uint32_t chain_length = 0;  // launches on the longest way to it from data of the client; 0: not forecast
};

class LaunchPolicy {
 public:
  // What the sequencer must do for the policy beyond keeping the queue.
  struct Needs {
    bool launch_times = false;  // workers report how long launches take
    bool forecast = false;      // start_ns, chain_length
    int64_t window_ns = 0;      // how much expected work is sent ahead of a device; 0: only the number counts
  };
  virtual ~LaunchPolicy() = default;
  virtual Needs needs() const { return {}; }
  // An index into `candidates`, which aren't empty.
  virtual size_t Choose(int64_t now_ns, absl::Span<const LaunchCandidate> candidates) const = 0;
};

inline constexpr std::string_view kLaunchPolicyNames[] = {"fifo", "priority", "share", "pipeline"};
// INVALID_ARGUMENT that lists the names.
absl::StatusOr<std::unique_ptr<LaunchPolicy>> MakeLaunchPolicy(const std::string& name);

// The candidate that comes before all others; `before(a, b)` is a strict order.
template <typename Before>
size_t FirstOf(absl::Span<const LaunchCandidate> candidates, Before before) {
  size_t first = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (before(candidates[i], candidates[first])) first = i;
  }
  return first;
}

// Work that a policy which chooses late lets a device have ahead: enough for a command's way there and a completion's
// way back several times over, little enough that a choice counts soon.
inline constexpr int64_t kLateChoiceWindowNs = 4'000'000;

}  // namespace switchtower
