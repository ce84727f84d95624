// Launches that outlive who asked for them: their session or controller has ended, they are cancelled, and they still
// run. PJRT can't stop a program, so an endless one would hold its device for ever. Tells when to give up on them.
//
//   Add(what one end left) --Ended(each)--> empty, forgotten
//                          \--nothing of it ended for `grace`--> Stuck
//
// A long queue of honest launches, left at once, isn't stuck as long as one after the other ends.
//
// Place:    worker/exec, under LaunchTable. Pure: the time is an argument.
// Threads:  one owner.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "types/ids.h"

namespace switchtower {

class LeftoverLaunches {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit LeftoverLaunches(std::chrono::milliseconds grace) : grace_(grace) {}

  // What one end left. A launch that an earlier end left stays there.
  void Add(const std::vector<LaunchId>& launches, Time now);
  // Any launch; `now` is the newest time so far.
  void Ended(LaunchId launch, Time now);
  // The first launch, in the order of their start, of those that were waited for long enough.
  std::optional<LaunchId> Stuck(Time now) const;

 private:
  struct Group {
    absl::flat_hash_set<LaunchId> launches;
    Time progress;
  };
  using Groups = std::list<Group>;

  const std::chrono::milliseconds grace_;
  Groups groups_;
  absl::flat_hash_map<LaunchId, Groups::iterator> group_of_;
};

}  // namespace switchtower
