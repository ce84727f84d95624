// The walk behind `why` (why.h): turns what a snapshot holds of one lease into a tree of reasons.
//
// Place: inspect; pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "inspect/snapshot_index.h"
#include "switchtower/introspection_service.pb.h"

namespace switchtower {

class WhyWalk {
 public:
  explicit WhyWalk(const introspection::Home& home) : index_(home) {}

  const HomeIndex& index() const { return index_; }

  // Each gives the reason that something isn't through, with what it waits for below.
  introspection::Reason Wait(const introspection::Wait& wait);
  introspection::Reason Array(const HomeIndex::ArrayName& array);
  introspection::Reason Launch(const introspection::Launch& launch);
  introspection::Reason Device(const introspection::DevicePlace& place);
  introspection::Reason Queued(const introspection::Session& session, int position);

 private:
  using Reasons = google::protobuf::RepeatedPtrField<introspection::Reason>;
  // Ranks of one launch that are at the same thing.
  struct RankGroup {
    std::vector<std::string> devices;
    int64_t age_us = 0;
    std::set<uint32_t> missing_arguments;
  };
  struct Ranks;

  static introspection::Reason Leaf(std::string what);
  // The number alone: all of one lease have one epoch.
  static std::string IdText(const introspection::LaunchId& id);

  void ExplainOpenSeats(const introspection::Launch& launch, Reasons* out);
  void SortRank(const introspection::Launch& launch, int rank, Ranks* ranks) const;
  introspection::Reason Collective(const introspection::Launch& launch, const introspection::Collective& collective);
  introspection::Reason AbsentRank(const introspection::Launch& launch, const introspection::Collective& collective,
                                   int64_t rank);
  introspection::Reason TransferTo(const HomeIndex::Transfer& transfer);
  void ExplainTask(const introspection::DevicePlace& place, const introspection::Activity::Task& task, Reasons* out);
  // "slice s0 host 1 doesn't answer (3.2 s)"; empty if it does.
  std::string Silence(const introspection::Worker* worker) const;
  introspection::Reason SilenceReason(const introspection::Worker& worker);
  // Null if the task doesn't wait for its client.
  const introspection::Activity::Call* CallOf(const introspection::DevicePlace& place,
                                              const introspection::Activity::Task& task) const;
  // The task that has the device; null if none has.
  const introspection::Activity::Task* HolderOf(const introspection::DevicePlace& place) const;
  std::string LaunchText(const introspection::Launch& launch) const;
  std::string CollectiveText(const introspection::Collective& collective) const;

  const HomeIndex index_;
  std::set<HomeIndex::ArrayName> arrays_;
  std::set<HomeIndex::LaunchName> launches_;
  std::set<std::tuple<HomeIndex::LaunchName, uint32_t, uint32_t, uint32_t>> collectives_;
  std::set<std::pair<uint64_t, int>> queued_;
  std::set<int32_t> silences_;  // seats
};

}  // namespace switchtower
