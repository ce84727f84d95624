// How far ahead of each device launches are sent: not so many that a worker's queue has no end, and, for a policy
// that wants to choose late, not for longer than it may take back.
//
//   sent, not ended on device 0:  [ 5 ms ][ 5 ms ]            room as long as fewer than `launches` and, if `time` is
//                         on 1:  [ 1 ms ][ 1 ms ][ 1 ms ]     set, fewer than 2 or less than `time` of expected work
//
// Two are always allowed: one runs, and the next is there when it ends.
//
// Place:    controller/schedule; pure, knows neither clock nor commands.
// Threads:  the home strand.
// Invariants: W-1 each Sent is undone by one Ended, with the same expectation.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/cluster/place.h"
#include "controller/schedule/seat_tally.h"

namespace switchtower {

class LaunchWindow {
 public:
  struct Limits {
    // The proxy's are fewer, by --launches-ahead: each costs it memory, and a client alone needs no more.
    int32_t launches = 1024;
    int64_t time_ns = 0;  // 0: however long they take
  };
  explicit LaunchWindow(Limits limits) : limits_(limits) {}

  bool HasRoom(const DeviceList& devices) const {
    return lanes_.AllOf(devices, nullptr, [this](const Lane& lane) {
      if (lane.ahead >= limits_.launches) return false;
      return limits_.time_ns == 0 || lane.ahead < 2 || lane.expected_ns < limits_.time_ns;
    });
  }
  void Sent(const DeviceList& devices, int64_t expected_ns) { lanes_.Add(devices, {1, expected_ns}); }
  // One device is done with it before the others.
  void EndedAt(const Place& place, int64_t expected_ns) { lanes_.AddAt(place, {-1, -expected_ns}); }
  // All are; those at `done_at` were already.
  void Ended(const DeviceList& devices, int64_t expected_ns, const std::vector<Place>& done_at = {}) {
    lanes_.Add(devices, {-1, -expected_ns});
    for (const Place& place : done_at) lanes_.AddAt(place, {1, expected_ns});
  }

  // Launches that were sent to the device and haven't ended.
  int32_t ahead(const Place& place) const { return lanes_.At(place).ahead; }
  const Limits& limits() const { return limits_; }

 private:
  struct Lane {
    int32_t ahead = 0;
    int64_t expected_ns = 0;

    Lane& operator+=(const Lane& other) {
      ahead += other.ahead;
      expected_ns += other.expected_ns;
      return *this;
    }
    friend bool operator==(const Lane&, const Lane&) = default;
  };

  const Limits limits_;
  SeatTally<Lane> lanes_;
};

}  // namespace switchtower
