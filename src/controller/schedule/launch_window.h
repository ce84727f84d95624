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
// Invariants: W-1 each Sent is undone by one Ended for each of its devices, with the same expectation.
#pragma once

#include <cstdint>

#include "controller/cluster/place.h"
#include "controller/schedule/place_map.h"

namespace switchtower {

class LaunchWindow {
 public:
  struct Limits {
    // As many as the door lets one session have under way: a client alone never waits for it.
    int32_t launches = 1024;
    int64_t time_ns = 0;  // 0: however long they take
  };
  explicit LaunchWindow(Limits limits) : limits_(limits) {}

  bool HasRoom(const DeviceList& devices) const {
    for (const Place& place : devices.places) {
      const Lane* lane = lanes_.Find(place);
      if (lane == nullptr) continue;
      if (lane->ahead >= limits_.launches) return false;
      if (limits_.time_ns > 0 && lane->ahead >= 2 && lane->expected_ns >= limits_.time_ns) return false;
    }
    return true;
  }
  void Sent(const DeviceList& devices, int64_t expected_ns) {
    for (const Place& place : devices.places) Add(place, 1, expected_ns);
  }
  void Ended(const Place& place, int64_t expected_ns) { Add(place, -1, -expected_ns); }

  // Launches that were sent to the device and haven't ended.
  int32_t ahead(const Place& place) const {
    const Lane* lane = lanes_.Find(place);
    return lane == nullptr ? 0 : lane->ahead;
  }
  const Limits& limits() const { return limits_; }

 private:
  struct Lane {
    int32_t ahead = 0;
    int64_t expected_ns = 0;
  };
  void Add(const Place& place, int32_t launches, int64_t expected_ns) {
    Lane& lane = lanes_[place];
    lane.ahead += launches;
    lane.expected_ns += expected_ns;
  }

  const Limits limits_;
  PlaceMap<Lane> lanes_;
};

}  // namespace switchtower
