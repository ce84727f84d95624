// Serial executors over a shared pool: state that lives on one strand needs no lock.
//
// Threads:  Post from any thread. Tasks of one strand never overlap and run in posting order.
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
  explicit Strand(ThreadPool& pool);
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // False (and the task is dropped) after Stop.
  bool Post(Task task);
  // Tasks posted and not yet begun.
  size_t depth() const;
  void Stop();

 private:
  struct State;
  static void Drain(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Names the calling thread, as seen in top and gdb (15 characters are kept).
void NameThread(const std::string& name);

}  // namespace switchtower
