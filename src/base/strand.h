// Serial executors over a shared pool: state that lives on one strand needs no lock.
//
// Threads:  Post and RunOrPost from any thread. Tasks of one strand never overlap and run in posting order.
// Lifetime: Strand::Stop (or its destructor) refuses new tasks and waits for the queued ones; so does
//           ThreadPool's, which must outlive its strands. Never Stop a strand from a task of its own.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace switchtower {

using Task = absl::AnyInvocable<void()>;

class ThreadPool {
 public:
  ThreadPool(std::string name, int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Post(Task task) EXCLUDES(mutex_);

 private:
  void Run();

  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

class Strand {
 public:
  // A thread that isn't the pool's has other things to do.
  static constexpr int kTasksHere = 8;

  explicit Strand(ThreadPool& pool);
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // False (and the task is dropped) after Stop.
  bool Post(Task task);
  // The same, but where the strand is idle the task runs here, before this returns: waking a thread costs more than a
  // short task does. The caller holds no lock that a task of the strand may want, and can spare the time of this task
  // and of a few others.
  bool RunOrPost(Task task);
  // For a caller that has something to do between the two halves of RunOrPost. True: the strand was idle and waits for
  // this thread's RunClaimed, which must follow soon. It runs so many tasks and leaves what is queued then to the pool.
  enum class Claim { kRefused, kPosted, kClaimed };
  Claim PostOrClaim(Task task);
  void RunClaimed(int tasks_max = kTasksHere);
  // Tasks posted and not yet begun.
  size_t depth() const;
  void Stop();

 private:
  struct State;
  static void Drain(std::shared_ptr<State> state, int tasks_max);
  std::shared_ptr<State> state_;
};

// Names the calling thread, as seen in top and gdb (15 characters are kept).
void NameThread(const std::string& name);

}  // namespace switchtower
