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
  explicit Poster(Strand& strand) : post_([&strand](Task task) { return strand.Post(std::move(task)); }) {}
  // Whatever runs tasks in the order in which they come, one at a time: a test's event loop.
  explicit Poster(std::function<bool(Task)> post) : post_(std::move(post)) {}

  // False, and the task is dropped, once detached.
  bool Post(Task task) {
    MutexLock lock(mutex_);
    return post_ && post_(std::move(task));
  }
  void Detach() {
    MutexLock lock(mutex_);
    post_ = nullptr;
  }

 private:
  Mutex mutex_;
  std::function<bool(Task)> post_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
