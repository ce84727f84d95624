// How many launches of a session are sent or queued and not yet ended, what else is queued, and what it asked for and
// has no answer to: values, readiness, compiled programs. The door stops reading the client's stream while there is too
// much (I-6). And its compiles, for people who ask what it waits for.
//
// Threads:  any. `resume` runs on the thread that ends what is under way and must only post.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace switchtower {

class SessionFlow {
 public:
  // What megabytes that wait here count as; each thing counts as one beside them.
  static constexpr int64_t kBytesPerLaunch = 1 << 20;

  // Launches and what is queued.
  size_t launches() const { return launches_.load(); }
  // These and what was asked for.
  size_t under_way() const { return launches_.load() + asked_.load(); }
  void Began(size_t count = 1) { launches_.fetch_add(count); }
  void Ended(size_t count = 1) EXCLUDES(mutex_) { Subtract(launches_, count); }
  void Asked(size_t count = 1) { asked_.fetch_add(count); }
  void Answered(size_t count = 1) EXCLUDES(mutex_) { Subtract(asked_, count); }
  // Runs `resume` once, at once if less than `bound` is under way already.
  void WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      bound_ = bound;
      resume_ = std::move(resume);
      waiting_.store(true);
    }
    Resume();
  }

  // `bytes` of the program as it came. The number is CompileEnded's.
  uint64_t CompileBegan(size_t bytes) EXCLUDES(mutex_) {
    const size_t weight = 1 + bytes / kBytesPerLaunch;
    Asked(weight);
    MutexLock lock(mutex_);
    compiles_.emplace(++last_compile_, Compile{std::chrono::steady_clock::now(), weight});
    return last_compile_;
  }
  void CompileEnded(uint64_t number) EXCLUDES(mutex_) {
    size_t weight = 0;
    {
      MutexLock lock(mutex_);
      auto it = compiles_.find(number);
      weight = it->second.weight;
      compiles_.erase(it);
    }
    Answered(weight);
  }
  struct Compiles {
    size_t running = 0;
    std::chrono::steady_clock::time_point oldest;
  };
  Compiles compiles() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (compiles_.empty()) return {};
    return {compiles_.size(), compiles_.begin()->second.began};
  }

 private:
  struct Compile {
    std::chrono::steady_clock::time_point began;
    size_t weight = 0;
  };

  // In one order of all threads: either this sees who waits, or who waits sees what this leaves.
  void Subtract(std::atomic<size_t>& number, size_t count) EXCLUDES(mutex_) {
    if (count == 0) return;
    number.fetch_sub(count);
    if (waiting_.load()) Resume();
  }
  void Resume() EXCLUDES(mutex_) {
    absl::AnyInvocable<void()> resume;
    {
      MutexLock lock(mutex_);
      if (!resume_ || under_way() >= bound_) return;
      resume = std::move(resume_);
      resume_ = nullptr;
      waiting_.store(false);
    }
    resume();
  }

  std::atomic<size_t> launches_{0};
  std::atomic<size_t> asked_{0};
  std::atomic<bool> waiting_{false};
  mutable Mutex mutex_;
  uint64_t last_compile_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Compile> compiles_ GUARDED_BY(mutex_);
  size_t bound_ GUARDED_BY(mutex_) = 0;
  absl::AnyInvocable<void()> resume_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
