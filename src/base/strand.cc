#include "base/strand.h"

#include <pthread.h>

#include <utility>

namespace switchtower {
namespace {

// A long queue gives its pool thread back now and then, so that one strand's flood delays no other.
constexpr int kTasksPerTurn = 64;

}  // namespace

void NameThread(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

ThreadPool::ThreadPool(std::string name, int threads) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, name] {
      NameThread(name);
      Run();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Post(Task task) {
  {
    MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.NotifyOne();
}

void ThreadPool::Run() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) wake_.Wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    std::move(task)();
  }
}

struct Strand::State {
  explicit State(ThreadPool& pool) : pool(pool) {}

  ThreadPool& pool;
  mutable Mutex mutex;
  CondVar idle;
  std::deque<Task> tasks GUARDED_BY(mutex);
  bool running GUARDED_BY(mutex) = false;
  bool stopped GUARDED_BY(mutex) = false;
};

Strand::Strand(ThreadPool& pool) : state_(std::make_shared<State>(pool)) {}

Strand::~Strand() { Stop(); }

Strand::Claim Strand::PostOrClaim(Task task) {
  MutexLock lock(state_->mutex);
  if (state_->stopped) return Claim::kRefused;
  state_->tasks.push_back(std::move(task));
  if (state_->running) return Claim::kPosted;
  state_->running = true;
  return Claim::kClaimed;
}

void Strand::RunClaimed(int tasks_max) { Drain(state_, tasks_max); }

bool Strand::Post(Task task) {
  const Claim claim = PostOrClaim(std::move(task));
  if (claim == Claim::kClaimed) state_->pool.Post([state = state_] { Drain(state, kTasksPerTurn); });
  return claim != Claim::kRefused;
}

bool Strand::RunOrPost(Task task) {
  const Claim claim = PostOrClaim(std::move(task));
  if (claim == Claim::kClaimed) RunClaimed();
  return claim != Claim::kRefused;
}

size_t Strand::depth() const {
  MutexLock lock(state_->mutex);
  return state_->tasks.size();
}

void Strand::Stop() {
  MutexLock lock(state_->mutex);
  state_->stopped = true;
  while (state_->running) state_->idle.Wait(state_->mutex);
}

void Strand::Drain(std::shared_ptr<State> state, int tasks_max) {
  for (int i = 0; i < tasks_max; ++i) {
    Task task;
    {
      MutexLock lock(state->mutex);
      if (state->tasks.empty()) {
        state->running = false;
        state->idle.NotifyAll();
        return;
      }
      task = std::move(state->tasks.front());
      state->tasks.pop_front();
    }
    std::move(task)();
  }
  ThreadPool& pool = state->pool;
  pool.Post([state = std::move(state)] { Drain(state, kTasksPerTurn); });
}

}  // namespace switchtower
