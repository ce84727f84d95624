// Records what happens and when, while somebody traces; otherwise each place that could record costs one load and a
// branch.
//
//   if (trace.on()) trace.Add({...});
//
// Place:    controller/api; the door and the controller share one, whoever asks for traces reads it.
// Threads:  any.
// Invariants: R-1 memory is bounded: what finds no room is counted and dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "types/ids.h"

namespace switchtower {

// Times are Unix nanoseconds, of the host where it happened.
struct TraceSpan {
  enum class Kind { kRequest, kSequence, kExecute, kTransfer };
  Kind kind = Kind::kRequest;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  std::string name;
  SessionId session;
  ArrayId first_array;    // a request and the operation that it becomes: the first array that they make
  LaunchId launch;        // operations, executions, transfers
  std::string worker;     // executions: where; transfers: from where
  int32_t device = 0;     // executions
  std::string to_worker;  // transfers
  uint64_t bytes = 0;     // transfers
};

inline uint64_t UnixNanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

class TraceRecorder {
 public:
  static constexpr size_t kSpansMax = 1'000'000;

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // False if somebody traces already.
  bool Start() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (on()) return false;
    spans_.clear();
    dropped_ = 0;
    on_.store(true, std::memory_order_relaxed);
    return true;
  }

  void Add(TraceSpan span) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!on()) return;
    if (spans_.size() < kSpansMax) {
      spans_.push_back(std::move(span));
    } else {
      ++dropped_;
    }
  }

  struct Recording {
    std::vector<TraceSpan> spans;
    uint64_t dropped = 0;
  };
  Recording Stop() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    on_.store(false, std::memory_order_relaxed);
    return {std::exchange(spans_, {}), std::exchange(dropped_, 0)};
  }

 private:
  std::atomic<bool> on_{false};
  Mutex mutex_;
  std::vector<TraceSpan> spans_ GUARDED_BY(mutex_);
  uint64_t dropped_ GUARDED_BY(mutex_) = 0;
};

}  // namespace switchtower
