// The socket of a client's connection, beside gRPC, which reads it. What comes from a client that runs ahead gathers
// there for a moment, so that gRPC's threads wake for many requests together: to be woken costs more than to handle
// one.
//
//   request --OnRequest--> its client goes on without an answer, as for kAheadFor before, and kDense requests came in a
//                     |    tick --> the kernel wakes the reader once there are kGatherBytes, or at the next tick
//                     `--> else --> it does for each byte, as ever
//
// Place:    frontdoor; ClientSockets has them by the peer of a stream.
// Threads:  any; ticks on the loop's.
// Lifetime: shared. Its descriptor is its own: gRPC shuts the socket down where it ends the connection, so nobody is
//           kept from seeing that. The loop outlives it.
// Invariants: G-1 nothing is held back for longer than a tick. G-2 nor from a client that has waited for an answer
//           within kAheadFor: what it waits for takes a sixteenth longer than it ran ahead, at most. G-3 only where one
//           session alone uses the connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/mutex.h"
#include "base/net/event_loop.h"
#include "base/net/unique_fd.h"

namespace switchtower {

class ClientSocket : public std::enable_shared_from_this<ClientSocket> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTick{1};
  static constexpr std::chrono::milliseconds kAheadFor = 16 * kTick;
  static constexpr int kDense = 4;
  // Less than a stream's window: a client that has filled that has nothing more to send.
  static constexpr int kGatherBytes = 16 << 10;

  ClientSocket(EventLoop& loop, UniqueFd socket);

  void AddSession() EXCLUDES(mutex_);
  void RemoveSession() EXCLUDES(mutex_);
  // A session's request was read. `goes_on`: its client needs no answer to send the next.
  void OnRequest(bool goes_on, Clock::time_point now) EXCLUDES(mutex_);

 private:
  void Tick() EXCLUDES(mutex_);
  bool RunsAhead(bool goes_on, Clock::time_point now) REQUIRES(mutex_);
  bool KeepTicking() REQUIRES(mutex_);
  void WakeFor(int bytes);

  EventLoop& loop_;
  const UniqueFd socket_;
  Mutex mutex_;
  int sessions_ GUARDED_BY(mutex_) = 0;
  bool gathers_ GUARDED_BY(mutex_) = false;
  bool ticking_ GUARDED_BY(mutex_) = false;  // as long as it gathers, and one tick more
  Clock::time_point awaited_ GUARDED_BY(mutex_);
  // Requests are counted for a tick and until the next one comes.
  Clock::time_point counted_from_ GUARDED_BY(mutex_);
  int counted_ GUARDED_BY(mutex_) = 0;
  bool dense_ GUARDED_BY(mutex_) = false;
};

}  // namespace switchtower
