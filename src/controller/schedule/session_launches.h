// What is known of a session's launches by their numbers: which are under way, and whether one has ended well. With
// that, most questions for the values of a client that waits for each launch need no worker's answer.
//
// Place:    controller/schedule.
// Threads:  the home strand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "types/ids.h"

namespace switchtower {

class SessionLaunches {
 public:
  struct Standing {
    enum State { kUnknown, kUnderWay, kEndedWell };
    State state = kUnknown;
    LaunchId id;  // of what is under way
  };

  // The session wants to know of values.
  void Asked() { asked_ = true; }
  // `number` is about to be sent. True if its client most likely waits for it, as for the one before.
  bool TakeAsked() { return std::exchange(asked_, false); }

  void Sent(uint64_t number, LaunchId id) { under_way_[number] = id; }
  void Ended(uint64_t number, bool well) {
    under_way_.erase(number);
    if (!well) Failed(number);
  }
  // Sent or not.
  void Failed(uint64_t number) { newest_failed_ = std::max(newest_failed_, number); }

  // Of one that was sent or failed. Failures aren't kept one by one: of launches older than the newest of them nothing
  // is known, nor of 0.
  Standing Of(uint64_t number) const {
    if (number <= newest_failed_) return {};
    if (auto it = under_way_.find(number); it != under_way_.end()) return {Standing::kUnderWay, it->second};
    return {Standing::kEndedWell, {}};
  }

 private:
  absl::flat_hash_map<uint64_t, LaunchId> under_way_;
  uint64_t newest_failed_ = 0;
  bool asked_ = false;
};

}  // namespace switchtower
