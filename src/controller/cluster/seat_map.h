// Numbers the hosts of a lease: which seats belong to which of its slices. Seats are given out once and keep
// their number for the life of the lease, whatever slice or worker is behind them later.
//
// Place:  controller/cluster; a value's builder without threads of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "resource_manager/api/cluster.h"

namespace switchtower {

// A slice as its lease sees it. `first_seat` + host_index is the seat of a host.
struct SeatedSlice {
  SliceInfo info;
  int32_t first_seat = -1;
};

// A lease's state at one moment with its seats. Slices whose size isn't known yet are left out.
struct SeatedLease {
  LeaseState state;  // `slices` is empty: they are below
  std::vector<SeatedSlice> slices;
};

class SeatMap {
 public:
  SeatedLease Seat(LeaseState state);

 private:
  struct Slot {
    int32_t first_seat = 0;
    int32_t num_hosts = 0;
  };
  // An exclusive lease names its slices by their place in the request (they may be bound anew), a shared one
  // by slice.
  std::map<std::string, Slot> slots_;
  int32_t next_seat_ = 0;
};

}  // namespace switchtower
