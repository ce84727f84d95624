// Where a shard lives, as far as the controller's order is concerned: a seat of a lease and a device on it.
//
// A seat is one host of one leased slice, numbered densely inside the lease. It keeps its number whoever sits
// there, so that everything above the cluster view stays free of physical names (S-1): a worker that is lost
// and comes back takes the same seat under a new WorkerId.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace switchtower {

struct Place {
  int32_t seat = 0;
  int32_t ordinal = 0;  // device on the host
  friend auto operator<=>(const Place&, const Place&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Place& place) {
    return H::combine(std::move(h), place.seat, place.ordinal);
  }
};

// Devices in shard (or rank) order. Immutable and shared: one for each distinct list of a session, so that
// lists can be compared by pointer and work per list is done once. What is counted for each device is counted once
// for all devices of a whole seat (SeatTally): work per launch is in proportion to seats.
struct DeviceList {
  std::vector<Place> places;
  std::vector<int32_t> seats;  // ascending, each once
  struct WholeSeat {
    int32_t seat = 0;
    int32_t devices = 0;
  };
  std::vector<WholeSeat> whole_seats;  // of these: all devices of the host are in the list
  std::vector<Place> loose;            // places on the others

  // `devices_of_seat` by seat; where it says nothing no seat counts as whole.
  static std::shared_ptr<const DeviceList> Make(std::vector<Place> places,
                                                const std::vector<int32_t>& devices_of_seat = {}) {
    auto list = std::make_shared<DeviceList>();
    std::vector<int32_t> named;  // by seat
    for (const Place& place : places) {
      const auto seat = static_cast<size_t>(place.seat);
      if (seat >= named.size()) named.resize(seat + 1);
      if (named[seat]++ == 0) list->seats.push_back(place.seat);
    }
    std::sort(list->seats.begin(), list->seats.end());
    const auto is_whole = [&](int32_t seat) {
      return seat < static_cast<int32_t>(devices_of_seat.size()) && named[seat] == devices_of_seat[seat];
    };
    for (int32_t seat : list->seats) {
      if (is_whole(seat)) list->whole_seats.push_back({seat, named[seat]});
    }
    std::copy_if(places.begin(), places.end(), std::back_inserter(list->loose),
                 [&](const Place& place) { return !is_whole(place.seat); });
    list->places = std::move(places);
    return list;
  }
};
using DeviceListPtr = std::shared_ptr<const DeviceList>;

}  // namespace switchtower
