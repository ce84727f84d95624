// A sum for each device of a lease. What is added for a list of devices is kept once for all devices of a seat that
// is in the list as a whole, and by device only on the others:
//
//   seat 0   whole 3   devices {0, 0, 0, 0}      at(seat 0, device 2) = 3
//   seat 1   whole 3   devices {0, 1, 0, 0}      at(seat 1, device 1) = 4
//
// Place:    controller/schedule; pure.
// Invariants: T-1 work is in proportion to the seats of a list, where none of its seats was ever used in part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "controller/cluster/place.h"

namespace switchtower {

template <typename T>
class SeatTally {
 public:
  void Add(const DeviceList& devices, const T& amount) {
    for (const DeviceList::WholeSeat& seat : devices.whole_seats) AddWhole(seat.seat, amount);
    for (const Place& place : devices.loose) AddAt(place, amount);
  }
  void AddWhole(int32_t seat, const T& amount) { SeatAt(seat).whole += amount; }
  void AddAt(const Place& place, const T& amount) {
    Seat& seat = SeatAt(place.seat);
    const auto ordinal = static_cast<size_t>(place.ordinal);
    if (ordinal >= seat.devices.size()) seat.devices.resize(ordinal + 1);
    T& device = seat.devices[ordinal];
    if (device == T{}) ++seat.uneven;
    device += amount;
    if (device == T{}) --seat.uneven;
  }
  T At(const Place& place) const {
    const Seat* seat = Find(place.seat);
    return seat == nullptr ? T{} : seat->At(place.ordinal);
  }
  // Whether `ok` is true of the sum on every device of the list, together with that of `other` if it isn't null.
  // Devices that have the same are asked for once.
  bool AllOf(const DeviceList& devices, const SeatTally* other, absl::FunctionRef<bool(const T&)> ok) const {
    static const Seat kNothing;
    const auto find = [](const SeatTally* tally, int32_t seat) {
      const Seat* found = tally == nullptr ? nullptr : tally->Find(seat);
      return found == nullptr ? &kNothing : found;
    };
    for (const DeviceList::WholeSeat& whole : devices.whole_seats) {
      const Seat &a = *find(this, whole.seat), &b = *find(other, whole.seat);
      const int32_t different = a.uneven + b.uneven == 0 ? 1 : whole.devices;
      for (int32_t ordinal = 0; ordinal < different; ++ordinal) {
        T sum = a.At(ordinal);
        sum += b.At(ordinal);
        if (!ok(sum)) return false;
      }
    }
    for (const Place& place : devices.loose) {
      T sum = find(this, place.seat)->At(place.ordinal);
      sum += find(other, place.seat)->At(place.ordinal);
      if (!ok(sum)) return false;
    }
    return true;
  }
  void Clear(int32_t seat) {
    if (Find(seat) != nullptr) seats_[seat] = Seat{};
  }

 private:
  struct Seat {
    T whole{};
    std::vector<T> devices;
    int32_t uneven = 0;  // devices whose own sum isn't zero

    T At(int32_t ordinal) const {
      T sum = whole;
      if (uneven > 0 && static_cast<size_t>(ordinal) < devices.size()) sum += devices[ordinal];
      return sum;
    }
  };
  Seat& SeatAt(int32_t seat) {
    if (static_cast<size_t>(seat) >= seats_.size()) seats_.resize(static_cast<size_t>(seat) + 1);
    return seats_[seat];
  }
  const Seat* Find(int32_t seat) const { return static_cast<size_t>(seat) < seats_.size() ? &seats_[seat] : nullptr; }

  std::vector<Seat> seats_;
};

}  // namespace switchtower
