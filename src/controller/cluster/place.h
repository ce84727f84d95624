// Where a shard lives, as far as the controller's order is concerned: a seat of a lease and a device on it.
//
// A seat is one host of one leased slice, numbered densely inside the lease. It keeps its number whoever sits
// there, so that everything above the cluster view stays free of physical names (S-1): a worker that is lost
// and comes back takes the same seat under a new WorkerId.
#pragma once

#include <algorithm>
#include <cstdint>
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
// lists can be compared by pointer and work per list is done once.
struct DeviceList {
  std::vector<Place> places;
  std::vector<int32_t> seats;  // ascending, each once

  static std::shared_ptr<const DeviceList> Make(std::vector<Place> places) {
    auto list = std::make_shared<DeviceList>();
    for (const Place& place : places) list->seats.push_back(place.seat);
    std::sort(list->seats.begin(), list->seats.end());
    list->seats.erase(std::unique(list->seats.begin(), list->seats.end()), list->seats.end());
    list->places = std::move(places);
    return list;
  }
};
using DeviceListPtr = std::shared_ptr<const DeviceList>;

}  // namespace switchtower
