// The reader's half of all fast rings of this process: whoever waits for a message takes it out of the rings itself.
// While messages are wanted and nobody waits the loop does; what nobody wants yet is left in the rings, and costs no
// wake-up.
//
//   peers' FastRingWriters --slots--> FastRingReaders --Wait (the thread that needs it) or OnReady (loop)--> deliver
//
// A thread that waits first looks again and again, giving its core to others in between: on a machine with fewer cores
// than workers the peers run meanwhile, and their messages are there on return. Then it sleeps, and the message that
// comes wakes it and no other thread.
//
// Place:    transport, private; one in each FabricCore.
// Threads:  Add, Remove and OnReady on the loop's; the rest on any. One thread at a time reads the rings; `deliver`
//           runs there and must not wait; on the loop's thread it must not block either.
// Lifetime: Remove delivers what its writer had published.
// Errors:   nonsense in a ring is told to its `failed`, on the reading thread; the ring is read no more.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/event_loop.h"
#include "base/net/unique_fd.h"
#include "transport/fast_ring.h"
#include "types/ids.h"

namespace switchtower {

class FastLane : private EventLoop::FdHandler {
 public:
  using Deliver = std::function<void(WorkerId from, const MessageHeader&, ReceivedBytes)>;

  static absl::StatusOr<std::unique_ptr<FastLane>> Create(EventLoop& loop, Deliver deliver);

  // Copies of the bells, for a peer.
  absl::StatusOr<FastBells> Bells() const;

  struct Source {
    WorkerId from;
    std::unique_ptr<FastRingReader> ring;
    std::function<void(absl::Status)> failed;
    bool broken = false;
  };
  void Add(std::shared_ptr<Source> source) EXCLUDES(mutex_);
  void Remove(const std::shared_ptr<Source>& source) EXCLUDES(mutex_);

  // Delivers messages here until `done`, or until it has looked `looks` times and has slept until `end`. False at once
  // if another thread is waiting.
  bool Wait(absl::FunctionRef<bool()> done, int looks, std::chrono::steady_clock::time_point end) EXCLUDES(mutex_);
  // `done` of the thread that waits may have become true otherwise than by a message.
  void Wake();
  // Between the two the loop delivers what comes; calls nest.
  void Want() EXCLUDES(mutex_);
  void Unwant() { wanted_.fetch_sub(1); }

 private:
  FastLane(Deliver deliver, FastBells bells) : deliver_(std::move(deliver)), bells_(std::move(bells)) {}

  void OnReady(uint32_t epoll_events) override EXCLUDES(mutex_);
  void DrainAll() REQUIRES(mutex_);
  void Drain(Source& source) REQUIRES(mutex_);
  void WantAll(FastWish wish) REQUIRES(mutex_);
  bool AllEmpty() REQUIRES(mutex_);
  // For a turn of reading on behalf of the loop; false if another thread has one, which does it as well then.
  bool TryClaim() TRY_ACQUIRE(true, mutex_);
  // Ends a turn of reading: hands the rings over to whoever wants messages.
  void Release() RELEASE(mutex_);
  void LeaveToLoop() REQUIRES(mutex_);
  // Lets the mutex go until a message, Wake or `end`. It may return early.
  void Sleep(absl::FunctionRef<bool()> done, std::chrono::steady_clock::time_point end) REQUIRES(mutex_);

  const Deliver deliver_;
  const FastBells bells_;

  Mutex mutex_;  // of whoever reads the rings
  std::vector<std::shared_ptr<Source>> sources_ GUARDED_BY(mutex_);
  std::atomic<bool> missed_{false};   // the loop's bell or a Want found the mutex taken
  std::atomic<bool> waiting_{false};  // a thread is in Wait
  std::atomic<bool> asleep_{false};   // that one sleeps, or is about to
  std::atomic<int> wanted_{0};
};

}  // namespace switchtower
