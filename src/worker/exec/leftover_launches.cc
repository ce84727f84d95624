#include "worker/exec/leftover_launches.h"

#include <algorithm>

namespace switchtower {

void LeftoverLaunches::Add(const std::vector<LaunchId>& launches, Time now) {
  groups_.push_back({{}, now});
  const auto group = std::prev(groups_.end());
  for (LaunchId launch : launches) {
    if (group_of_.emplace(launch, group).second) group->launches.insert(launch);
  }
  if (group->launches.empty()) groups_.erase(group);
}

void LeftoverLaunches::Ended(LaunchId launch, Time now) {
  auto it = group_of_.find(launch);
  if (it == group_of_.end()) return;
  const Groups::iterator group = it->second;
  group_of_.erase(it);
  group->launches.erase(launch);
  group->progress = now;
  if (group->launches.empty()) groups_.erase(group);
}

std::optional<LaunchId> LeftoverLaunches::Stuck(Time now) const {
  std::optional<LaunchId> first;
  for (const Group& group : groups_) {
    if (now - group.progress < grace_) continue;
    const LaunchId begun = *std::min_element(group.launches.begin(), group.launches.end());
    first = first.has_value() ? std::min(*first, begun) : begun;
  }
  return first;
}

}  // namespace switchtower
