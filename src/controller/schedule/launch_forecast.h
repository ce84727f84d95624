// When a launch is expected to start and to end, from what was measured of its program, from when its inputs are
// expected and from what its devices have before them.
//
//   start = max(inputs, devices)     end = start + duration of the program
//
// Durations are learnt from the workers' launch times, for each program by itself. The rest is kept only for a policy
// that asks for it.
//
// Place:    controller/schedule; pure: the caller says what time it is.
// Threads:  the home strand.
// Invariants: F-1 memory is in proportion to live arrays, programs and devices.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "controller/schedule/launch_policy.h"
#include "controller/schedule/ops.h"
#include "controller/schedule/place_map.h"
#include "types/ids.h"

namespace switchtower {

class LaunchForecast {
 public:
  // For a program that was never measured: two of them fill the window of a policy that chooses late.
  static constexpr int64_t kUnknownNs = 2'000'000;

  struct Expectation {
    int64_t start_ns = 0;
    int64_t duration_ns = 0;
    uint32_t chain_length = 0;
    int64_t end_ns() const { return start_ns + duration_ns; }
  };

  int64_t Duration(const ProgramId& program) const;
  void Measured(const ProgramId& program, int64_t ns);

  // Everything below for policies that want start and chain.
  Expectation Expect(SessionId session, const LaunchOp& launch, int64_t now_ns) const;
  // Fills in what a candidate's policy wants to know.
  void Describe(const Op& op, int64_t now_ns, LaunchCandidate& candidate) const;
  void Sent(SessionId session, const LaunchOp& launch, const Expectation& expected);
  void Ended(const DeviceList& devices, const Expectation& expected, int64_t now_ns);
  // An operation that isn't a launch was sent: its arrays are ready with those that they are made from, or gone.
  void Passed(const Op& op);
  void DropSession(SessionId session);

 private:
  struct ArrayForecast {
    int64_t ready_ns = 0;
    uint32_t chain_length = 0;
  };
  struct Lane {
    int64_t free_ns = 0;
    int32_t ahead = 0;
  };

  void Derive(SessionId session, ArrayId from, ArrayId to);

  static constexpr size_t kProgramsMax = 4096;
  absl::flat_hash_map<ProgramId, int64_t> durations_;
  absl::flat_hash_map<SessionId, absl::flat_hash_map<ArrayId, ArrayForecast>> arrays_;
  PlaceMap<Lane> lanes_;
};

}  // namespace switchtower
