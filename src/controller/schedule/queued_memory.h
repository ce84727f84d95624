// The memory that a session's queued operations will ask for, and in which order.
//
// Place:    controller/schedule; used only where memory is limited.
// Threads:  the home strand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "controller/schedule/admission_ledger.h"
#include "controller/schedule/seat_tally.h"

namespace switchtower {

class QueuedMemory {
 public:
  void Add(uint64_t arrival, const std::vector<AdmissionLedger::Need>& needs) {
    arrivals_.insert(arrival);
    for (const AdmissionLedger::Need& need : needs) bytes_.Add(*need.devices, std::min(need.bytes, kBytesMax));
  }
  void Remove(uint64_t arrival, const std::vector<AdmissionLedger::Need>& needs) {
    if (arrivals_.erase(arrival) == 0) return;
    for (const AdmissionLedger::Need& need : needs) bytes_.Add(*need.devices, -std::min(need.bytes, kBytesMax));
  }
  // Of those that need memory; 0: none.
  uint64_t oldest() const { return arrivals_.empty() ? 0 : *arrivals_.begin(); }
  // Of all queued operations.
  const SeatTally<int64_t>& bytes() const { return bytes_; }

 private:
  // What a client may ask for has no bound; so much fits nowhere, and a million of them have a sum.
  static constexpr int64_t kBytesMax = int64_t{1} << 43;

  std::set<uint64_t> arrivals_;
  SeatTally<int64_t> bytes_;
};

}  // namespace switchtower
