// The memory that a session's queued operations will ask for, and in which order.
//
// Place:    controller/schedule; used only where memory is limited.
// Threads:  the home strand.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/schedule/admission_ledger.h"

namespace switchtower {

class QueuedMemory {
 public:
  void Add(uint64_t arrival, const std::vector<AdmissionLedger::Need>& needs) {
    arrivals_.insert(arrival);
    for (const AdmissionLedger::Need& need : needs) bytes_[need.place] += need.bytes;
  }
  void Remove(uint64_t arrival, const std::vector<AdmissionLedger::Need>& needs) {
    if (arrivals_.erase(arrival) == 0) return;
    for (const AdmissionLedger::Need& need : needs) bytes_[need.place] -= need.bytes;
    if (arrivals_.empty()) bytes_.clear();
  }
  // Of those that need memory; 0: none.
  uint64_t oldest() const { return arrivals_.empty() ? 0 : *arrivals_.begin(); }
  // Of all queued operations.
  int64_t bytes(const Place& place) const {
    auto it = bytes_.find(place);
    return it == bytes_.end() ? 0 : it->second;
  }

 private:
  std::set<uint64_t> arrivals_;
  absl::flat_hash_map<Place, int64_t> bytes_;
};

}  // namespace switchtower
