// Threads that take tasks in order, for work that may outlive a wish to do it: Post says no after Stop.
//
// Threads:  Post from any thread; with one thread the tasks never overlap, so that state may belong to the queue.
// Lifetime: shared by all who post. Stop runs what is queued and joins; never from a task of the queue.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/strand.h"

namespace switchtower {

class WorkQueue {
 public:
  WorkQueue(std::string name, int threads) : pool_(std::make_unique<ThreadPool>(std::move(name), threads)) {}
  ~WorkQueue() { Stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  bool Post(Task task) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    pool_->Post(std::move(task));
    return true;
  }
  void Stop() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    pool_ = nullptr;  // runs what is queued and joins; nobody posts any more
  }

 private:
  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<ThreadPool> pool_;
};

// The one order in which a worker's state changes: a strand with a thread of its own for what nobody else runs.
//
// Threads:  as Strand; RunOrPost is for threads that hold no lock.
// Lifetime: shared by all who post. Stop runs what is queued; never from a task of the queue.
class IntakeQueue {
 public:
  bool Post(Task task) { return strand_.Post(std::move(task)); }
  bool RunOrPost(Task task) { return strand_.RunOrPost(std::move(task)); }
  void Stop() { strand_.Stop(); }

 private:
  ThreadPool pool_{"intake", 1};
  Strand strand_{pool_};
};

}  // namespace switchtower
