// Which seats lost their worker, and when: tells of any array whether a shard of it went down with one.
//
// Losses are numbered. An array carries the number of the last loss before it was made (its stamp), so one
// number an array is enough: a shard on a seat is lost if the seat's last loss is younger than the array.
//
//   stamp 3 ----------------- loss 4 on seat 0 ----------- array of stamp 3 with a shard on seat 0: lost
//                                             \ stamp 4 -- array made on the worker that came back: fine
//
// Threads:  methods from any thread. Losses and returns are recorded on the home strand, in order with the
//           commands; a stamp read elsewhere is at worst too old, which makes an array count as lost that was
//           being made while the loss happened.
// Errors:   DATA_LOSS naming slice, host and cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace switchtower {

class LossLedger {
 public:
  using Stamp = uint64_t;

  Stamp now() const { return version_.load(std::memory_order_acquire); }

  // OK if no seat of `seats` lost its worker since `stamp` or is without one now. Free of locks in a cluster
  // that is well and never lost anybody since.
  absl::Status Check(const std::vector<int32_t>& seats, Stamp stamp) const {
    if (stamp == now() && down_count_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
    return CheckSlowly(seats, stamp);
  }
  absl::Status CheckSeat(int32_t seat, Stamp stamp) const;

  // `who`: "slice s0 host 1".
  void Lost(int32_t seat, const std::string& who, const std::string& cause);
  void Returned(int32_t seat);

 private:
  struct Seat {
    Stamp last_loss = 0;
    bool down = false;
    absl::Status error;
  };
  absl::Status CheckSlowly(const std::vector<int32_t>& seats, Stamp stamp) const;
  absl::Status CheckLocked(int32_t seat, Stamp stamp) const REQUIRES(mutex_);

  std::atomic<Stamp> version_{0};
  std::atomic<int> down_count_{0};
  mutable Mutex mutex_;
  std::vector<Seat> seats_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
