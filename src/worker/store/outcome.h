// A status that comes once, and those who wait for it.
//
// Threads:  any. Callbacks run on the thread that calls Set, or at once on the caller's if it came before.
// Lifetime: shared by the producer and all that depend on it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace switchtower {

class Outcome {
 public:
  using Callback = absl::AnyInvocable<void(const absl::Status&)>;
  Outcome() = default;
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;

  // The first status stays.
  void Set(absl::Status status) EXCLUDES(mutex_) {
    std::vector<Callback> callbacks;
    {
      MutexLock lock(mutex_);
      if (status_.has_value()) return;
      status_ = status;
      callbacks.swap(callbacks_);
    }
    for (Callback& callback : callbacks) callback(status);
  }

  void Then(Callback callback) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!status_.has_value()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(*status_);  // never changes once set
  }

  // Absent while it hasn't come.
  std::optional<absl::Status> Peek() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  std::optional<absl::Status> status_ GUARDED_BY(mutex_);
  std::vector<Callback> callbacks_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
