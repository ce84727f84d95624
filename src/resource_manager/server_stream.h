// The server's side of a bidirectional gRPC stream: reads a message at a time, writes what it is given in order.
//
// Place:    resource_manager; the streams of workers and proxies derive from it.
// Threads:  Write, End and Abort from any; OnMessage on gRPC's threads, one at a time.
// Lifetime: whoever derives deletes itself in OnDone.
// Errors:   a peer that goes away ends the stream; nobody is told but by OnDone.
// Invariants: S-1 what waits to be written is bounded: news take the place of older news, and a peer that doesn't take
//           its answers isn't read on. It falls silent by that, and is ended as one that is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "base/mutex.h"

namespace switchtower {

template <typename In, typename Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  using Clock = std::chrono::steady_clock;
  // What one message is about, if the next about the same says all that it said.
  using News = uint64_t;
  static constexpr News kNoNews = 0;

  void Write(Out message, News news = kNoNews) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (finishing_) return;
    // The first one is under way.
    for (size_t i = 1; news != kNoNews && i < queue_.size(); ++i) {
      if (queue_[i].news != news) continue;
      queue_[i].message = std::move(message);
      return;
    }
    queue_.push_back({std::move(message), news});
    if (queue_.size() == 1) this->StartWrite(&queue_.front().message);
  }
  // What was written before still goes out.
  void End() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (finishing_) return;
    finishing_ = true;
    if (queue_.empty()) this->Finish(grpc::Status::OK);
  }
  bool ending() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return finishing_;
  }
  // At once, without what was written and not taken.
  void Abort() { context_.TryCancel(); }
  Clock::time_point last_heard() const {
    return Clock::time_point(Clock::duration(last_heard_.load(std::memory_order_relaxed)));
  }

 protected:
  explicit ServerStream(grpc::CallbackServerContext& context) : context_(context) { Heard(); }
  virtual void OnMessage(const In& message) = 0;
  // Once the deriving object is whole.
  void BeginReading() { this->StartRead(&incoming_); }

 private:
  static constexpr size_t kUnwrittenMax = 64;
  struct Outgoing {
    Out message;
    News news;
  };

  void Heard() { last_heard_ = Clock::now().time_since_epoch().count(); }
  void OnReadDone(bool ok) override EXCLUDES(mutex_) {
    if (!ok) return End();
    Heard();
    OnMessage(incoming_);
    MutexLock lock(mutex_);
    reading_held_ = true;
    ReadOnLocked();
  }
  void OnWriteDone(bool ok) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    queue_.pop_front();
    if (!ok) queue_.clear();
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front().message);
    } else if (finishing_) {
      this->Finish(grpc::Status::OK);
    }
    ReadOnLocked();
  }
  void OnCancel() override { End(); }
  void ReadOnLocked() REQUIRES(mutex_) {
    if (finishing_ || !reading_held_ || queue_.size() >= kUnwrittenMax) return;
    reading_held_ = false;
    this->StartRead(&incoming_);
  }

  grpc::CallbackServerContext& context_;
  In incoming_;  // gRPC's while it reads
  Mutex mutex_;
  std::deque<Outgoing> queue_ GUARDED_BY(mutex_);
  bool reading_held_ GUARDED_BY(mutex_) = false;  // no read is under way, one is due
  bool finishing_ GUARDED_BY(mutex_) = false;
  std::atomic<Clock::duration::rep> last_heard_{0};
};

}  // namespace switchtower
