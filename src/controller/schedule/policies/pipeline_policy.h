// For pipelines over several slices: what is expected to be able to start first goes first, and of launches that could
// start together the one at the end of the longest chain. A device then never waits at the head of its queue for a
// far stage while it has work whose inputs are there; and the backward pass of an earlier micro-batch, which hangs on
// its forward passes, goes before the forward pass of a later one, so that its activations are freed early (1F1B).
//
//   client's order    F1 F2 F3 F4 B1 B2 B3 B4
//   last stage        F1 B1 F2 B2 F3 B3 F4 B4
//
// Chain lengths only compare inside a session: between sessions the earliest arrival decides.
#pragma once

#include <algorithm>

#include "controller/schedule/launch_policy.h"

namespace switchtower {

class PipelinePolicy : public LaunchPolicy {
 public:
  // Expectations are rough: nearer than this, two launches can start together.
  static constexpr int64_t kTogetherNs = 50'000;

  Needs needs() const override { return {.launch_times = true, .forecast = true, .window_ns = kLateChoiceWindowNs}; }
  size_t Choose(int64_t now_ns, absl::Span<const LaunchCandidate> candidates) const override {
    int64_t soonest = INT64_MAX;
    for (const LaunchCandidate& candidate : candidates) soonest = std::min(soonest, Start(candidate, now_ns));
    const auto together = [&](const LaunchCandidate& candidate) {
      return Start(candidate, now_ns) <= soonest + kTogetherNs;
    };
    const size_t oldest = FirstOf(candidates, [&](const LaunchCandidate& a, const LaunchCandidate& b) {
      return together(a) != together(b) ? together(a) : a.arrival < b.arrival;
    });
    const SessionId session = candidates[oldest].session;
    const auto contends = [&](const LaunchCandidate& candidate) {
      return candidate.session == session && together(candidate);
    };
    return FirstOf(candidates, [&](const LaunchCandidate& a, const LaunchCandidate& b) {
      if (contends(a) != contends(b)) return contends(a);
      return a.chain_length != b.chain_length ? a.chain_length > b.chain_length : a.arrival < b.arrival;
    });
  }

 private:
  static int64_t Start(const LaunchCandidate& candidate, int64_t now_ns) {
    return std::max(candidate.start_ns, now_ns);
  }
};

}  // namespace switchtower
