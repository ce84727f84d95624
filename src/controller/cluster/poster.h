// Posts to a strand that may be gone by then: what callbacks from elsewhere hold instead of the strand.
//
// Threads:  all methods from any thread. Detach waits for a Post in progress, never for tasks.
// Lifetime: shared; the strand's owner calls Detach before it stops the strand.
#pragma once

#include <functional>
#include <utility>

#include "base/mutex.h"
#include "base/strand.h"

namespace switchtower {

class Poster {
 public:
  explicit Poster(Strand& strand) : strand_(&strand) {}
  // Whatever runs tasks in the order in which they come, one at a time: a test's event loop.
  explicit Poster(std::function<bool(Task)> post) : post_(std::move(post)) {}

  // False, and the task is dropped, once detached.
  bool Post(Task task) {
    MutexLock lock(mutex_);
    if (strand_ != nullptr) return strand_->Post(std::move(task));
    return post_ && post_(std::move(task));
  }
  // See Strand::RunOrPost.
  bool RunOrPost(Task task) {
    Strand* strand = nullptr;  // it can't end before RunClaimed has returned
    {
      MutexLock lock(mutex_);
      if (strand_ == nullptr) return post_ && post_(std::move(task));
      strand = strand_;
      switch (strand->PostOrClaim(std::move(task))) {
        case Strand::Claim::kRefused:
          return false;
        case Strand::Claim::kPosted:
          return true;
        case Strand::Claim::kClaimed:
          break;
      }
    }
    strand->RunClaimed();
    return true;
  }
  void Detach() {
    MutexLock lock(mutex_);
    strand_ = nullptr;
    post_ = nullptr;
  }

 private:
  Mutex mutex_;
  Strand* strand_ GUARDED_BY(mutex_) = nullptr;
  std::function<bool(Task)> post_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
