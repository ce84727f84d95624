#include "controller/arrays/reshard_planner.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace switchtower {
namespace {

int64_t Volume(const Box& box) {
  int64_t volume = 1;
  for (int64_t size : box.size) volume *= size;
  return volume;
}

// Empty (a zero size) where the two don't meet.
Box Intersect(const Box& a, const Box& b) {
  Box both;
  both.start.resize(a.start.size());
  both.size.resize(a.start.size());
  for (size_t d = 0; d < a.start.size(); ++d) {
    both.start[d] = std::max(a.start[d], b.start[d]);
    const int64_t end = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    both.size[d] = std::max<int64_t>(0, end - both.start[d]);
  }
  return both;
}

Box Inside(const Box& part, const Box& shard) {
  Box box = part;
  for (size_t d = 0; d < box.start.size(); ++d) box.start[d] -= shard.start[d];
  return box;
}

// Shards that hold the same box.
struct Group {
  Box box;
  std::vector<size_t> members;
};

std::vector<Group> GroupByBox(absl::Span<const ShardPlace> shards) {
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, size_t> index;
  std::vector<Group> groups;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Box& box = shards[i].box;
    if (Volume(box) == 0) continue;
    auto [it, added] = index.try_emplace({box.start, box.size}, groups.size());
    if (added) groups.push_back(Group{box, {}});
    groups[it->second].members.push_back(i);
  }
  return groups;
}

int Distance(const ShardPlace& a, const ShardPlace& b) {
  if (a.place == b.place) return 0;
  if (a.place.seat == b.place.seat) return 1;
  return a.slice == b.slice ? 2 : 3;
}

}  // namespace

absl::StatusOr<std::vector<ReshardPiece>> PlanReshard(absl::Span<const ShardPlace> sources,
                                                      absl::Span<const ShardPlace> destinations) {
  const std::vector<Group> source_groups = GroupByBox(sources);
  std::vector<ReshardPiece> pieces;
  std::vector<int64_t> sent(sources.size(), 0);  // elements promised to other devices
  for (const Group& wanted : GroupByBox(destinations)) {
    int64_t covered = 0;
    for (const Group& held : source_groups) {
      if (held.box.start.size() != wanted.box.start.size()) {
        return absl::InvalidArgumentError("source and destination have different ranks");
      }
      const Box both = Intersect(held.box, wanted.box);
      const int64_t volume = Volume(both);
      if (volume == 0) continue;
      covered += volume;
      for (size_t destination : wanted.members) {
        const size_t source = *std::min_element(held.members.begin(), held.members.end(), [&](size_t a, size_t b) {
          return std::make_tuple(Distance(sources[a], destinations[destination]), sent[a], a) <
                 std::make_tuple(Distance(sources[b], destinations[destination]), sent[b], b);
        });
        if (sources[source].place != destinations[destination].place) sent[source] += volume;
        pieces.push_back(ReshardPiece{source, destination, Inside(both, held.box), Inside(both, wanted.box)});
      }
    }
    if (covered != Volume(wanted.box)) {
      return absl::InvalidArgumentError(
          fmt::format("the source holds {} of the {} elements at [{}]+[{}] that the destination wants", covered,
                      Volume(wanted.box), fmt::join(wanted.box.start, ","), fmt::join(wanted.box.size, ",")));
    }
  }
  return pieces;
}

}  // namespace switchtower
