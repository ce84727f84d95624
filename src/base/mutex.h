// A mutex with clang's capability annotations (checked by `clang++ -Wthread-safety`), over std::mutex so
// that ThreadSanitizer sees it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ST_ANNOTATE_(x) __attribute__((x))
#else
#define ST_ANNOTATE_(x)
#endif
// Old abseil headers define some of these too, for clang alone.
#undef CAPABILITY
#undef SCOPED_CAPABILITY
#undef GUARDED_BY
#undef REQUIRES
#undef EXCLUDES
#undef ACQUIRE
#undef RELEASE
#undef TRY_ACQUIRE
#define CAPABILITY(x) ST_ANNOTATE_(capability(x))
#define SCOPED_CAPABILITY ST_ANNOTATE_(scoped_lockable)
#define GUARDED_BY(x) ST_ANNOTATE_(guarded_by(x))
#define REQUIRES(...) ST_ANNOTATE_(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) ST_ANNOTATE_(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) ST_ANNOTATE_(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) ST_ANNOTATE_(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) ST_ANNOTATE_(release_capability(__VA_ARGS__))

namespace switchtower {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ACQUIRE() { mutex_.lock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits release the mutex, which the caller holds through a MutexLock, and take it again.
class CondVar {
 public:
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False if `timeout` passed without a notification.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace switchtower
