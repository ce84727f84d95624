#include "controller/cluster/seat_map.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace switchtower {

SeatedLease SeatMap::Seat(LeaseState state) {
  SeatedLease seated;
  for (size_t i = 0; i < state.slices.size(); ++i) {
    SliceInfo& slice = state.slices[i];
    if (slice.num_hosts < 1 || slice.devices_per_host < 1) continue;
    const std::string key = state.exclusive ? fmt::format("#{}", i) : slice.name;
    auto [it, added] = slots_.try_emplace(key, Slot{next_seat_, slice.num_hosts});
    if (added) next_seat_ += slice.num_hosts;
    slice.num_hosts = std::min(slice.num_hosts, it->second.num_hosts);
    seated.slices.push_back(SeatedSlice{std::move(slice), it->second.first_seat});
  }
  state.slices.clear();
  seated.state = std::move(state);
  return seated;
}

}  // namespace switchtower
