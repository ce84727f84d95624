// A value for each device of a lease, by seat and ordinal: small dense numbers, so no hashing.
//
// Place:  controller/schedule; grows with what is asked for.
#pragma once

#include <cstddef>
#include <vector>

#include "controller/cluster/place.h"

namespace switchtower {

template <typename T>
class PlaceMap {
 public:
  T& operator[](const Place& place) {
    const auto seat = static_cast<size_t>(place.seat), ordinal = static_cast<size_t>(place.ordinal);
    if (seat >= seats_.size()) seats_.resize(seat + 1);
    std::vector<T>& devices = seats_[seat];
    if (ordinal >= devices.size()) devices.resize(ordinal + 1);
    return devices[ordinal];
  }
  // Null where nothing was put.
  const T* Find(const Place& place) const {
    const auto seat = static_cast<size_t>(place.seat), ordinal = static_cast<size_t>(place.ordinal);
    if (seat >= seats_.size() || ordinal >= seats_[seat].size()) return nullptr;
    return &seats_[seat][ordinal];
  }

 private:
  std::vector<std::vector<T>> seats_;
};

}  // namespace switchtower
