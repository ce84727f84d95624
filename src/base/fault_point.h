// Places worth hurting, for tests: off until they are armed by name; what happens when one fires is its site's affair.
//
//   FaultPoint join_fault("collective.join", {"rank"});     // at namespace scope, beside the site
//   if (join_fault.Fires({rank})) ...                        // off: one load and a branch
//   --fault-point collective.join:rank=3,after=10            // rank 3 joins ten times, then never more
//
// A specification is NAME or NAME:KEY=NUMBER,... The keys are those of the point, whose values must be equal, and for
// every point `after` (this many matches pass first) and `times` (this many fire; default: all).
//
// Threads:  Fires from any thread. Arm before the threads that come by start, as flags are read.
// Lifetime: points are static and register themselves when the program starts.
// Errors:   Arm: InvalidArgument that names what there is.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace switchtower {

class FaultPoint {
 public:
  FaultPoint(const char* name, std::vector<std::string> keys);
  FaultPoint(const FaultPoint&) = delete;
  FaultPoint& operator=(const FaultPoint&) = delete;

  // `values` in the order of the keys.
  bool Fires(std::initializer_list<int64_t> values) {
    return armed_.load(std::memory_order_acquire) && FiresArmed(values);
  }

  static absl::Status Arm(const std::string& specification);
  static void DisarmAll();
  // The specifications that are armed, for people who wonder.
  static std::vector<std::string> Armed();

 private:
  struct Rule {
    std::string text;
    std::vector<std::pair<size_t, int64_t>> equal;  // key -> value
    int64_t after = 0;
    int64_t times = INT64_MAX;
  };
  absl::StatusOr<Rule> Parse(const std::string& text, const std::string& conditions) const;
  bool FiresArmed(std::initializer_list<int64_t> values) EXCLUDES(mutex_);

  const std::string name_;
  const std::vector<std::string> keys_;
  std::atomic<bool> armed_{false};
  Mutex mutex_;
  std::vector<Rule> rules_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
