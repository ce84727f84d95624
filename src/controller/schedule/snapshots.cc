#include "controller/schedule/snapshots.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "controller/schedule/op_traits.h"

namespace switchtower {

std::vector<WorkerSnapshot> DescribeWorkers(const ClusterView& view, const ActivityQuestions& activity,
                                            std::chrono::steady_clock::time_point now) {
  std::vector<WorkerSnapshot> workers;
  for (const WorkerLinkPtr& link : view.links()) {
    WorkerSnapshot& worker = workers.emplace_back();
    worker.seat = link->seat;
    worker.id = link->info.id;
    worker.name = link->name;
    worker.num_devices = link->info.num_devices;
    worker.commands_sent = link->commands_sent;
    worker.queued_bytes = link->channel->queued_bytes();
    worker.stats = link->stats;
    if (const WorkerActivity* latest = activity.Latest(*link); latest != nullptr) worker.activity = *latest;
    if (const auto since = activity.OwesSince(*link); since.has_value()) {
      worker.silent_us = std::max<int64_t>(1, MicrosecondsSince(*since, now));
    }
  }
  for (int32_t seat = 0; seat < view.seats(); ++seat) {
    if (view.link(seat) != nullptr) continue;
    WorkerSnapshot& worker = workers.emplace_back();
    worker.seat = seat;
    worker.name = view.SeatName(seat);
    worker.state = view.state(seat) == ClusterView::SeatState::kDown ? WorkerSnapshot::State::kDown
                                                                     : WorkerSnapshot::State::kWaiting;
  }
  return workers;
}

namespace {

struct MergedCollective {
  CollectiveSnapshot told;
  std::set<int64_t> ranks;       // of the group
  std::set<int64_t> in;          // by their own worker
  std::set<int64_t> heard_from;  // by others
};

void AddSite(const PlacedProgram& program, CollectiveSnapshot* told) {
  for (const CollectiveSite& site : program.program->info.collectives) {
    if (site.op_id != told->op_id) continue;
    told->kind = site.kind;
    told->name = site.name;
    told->source = site.source;
  }
}

}  // namespace

std::vector<CollectiveSnapshot> MergeCollectives(const std::vector<WorkerSnapshot>& workers,
                                                 const InFlightTable& launches) {
  std::map<std::tuple<LaunchId, uint32_t, uint32_t, uint32_t>, MergedCollective> merged;
  std::set<int32_t> silent;
  for (const WorkerSnapshot& worker : workers) {
    if (!worker.activity.has_value() || worker.silent_us > 0) silent.insert(worker.seat);
    if (!worker.activity.has_value()) continue;
    for (const WorkerActivity::Collective& one : worker.activity->collectives) {
      const LaunchRecord* record = launches.Find(one.launch);
      if (record == nullptr) continue;
      const std::vector<Place>& places = record->program->devices->places;
      MergedCollective& all = merged[{one.launch, one.op_id, one.iteration, one.group}];
      if (all.told.op_id == 0) {
        all.told = {one.launch, one.op_id, one.iteration, one.group, one.kind, "", "", {}, {}, {}, 0};
        AddSite(*record->program, &all.told);
      }
      all.told.age_us = std::max(all.told.age_us, one.age_us);
      for (int64_t rank : one.ranks_open) all.ranks.insert(rank);
      for (int64_t rank : one.ranks_in) {
        all.ranks.insert(rank);
        if (rank < 0 || rank >= static_cast<int64_t>(places.size())) continue;
        (places[rank].seat == worker.seat ? all.in : all.heard_from).insert(rank);
      }
    }
  }
  std::vector<CollectiveSnapshot> collectives;
  for (auto& [key, all] : merged) {
    const std::vector<Place>& places = launches.Find(all.told.launch)->program->devices->places;
    for (int64_t rank : all.ranks) {
      if (rank < 0 || rank >= static_cast<int64_t>(places.size())) continue;
      const bool in = all.in.contains(rank) || all.heard_from.contains(rank);
      const bool known = !silent.contains(places[rank].seat);
      (in ? all.told.ranks_in : known ? all.told.ranks_out : all.told.ranks_unknown).push_back(rank);
    }
    collectives.push_back(std::move(all.told));
  }
  return collectives;
}

QueuedSnapshot DescribeQueued(const Op& op) {
  QueuedSnapshot queued;
  queued.what = Describe(op);
  struct Visitor {
    QueuedSnapshot& queued;
    void operator()(const LaunchOp& op) {
      queued.uses = op.arguments, queued.makes = op.results;
      queued.call_site = op.call_site;
    }
    void operator()(const PutOp& op) { queued.makes = {op.array}; }
    void operator()(const BindOp& op) {
      for (const BindOp::Binding& binding : op.bindings) {
        queued.uses.push_back(binding.from);
        queued.makes.push_back(binding.to);
      }
    }
    void operator()(const TransferOp& op) { queued.uses = {op.from}, queued.makes = {op.to}; }
    void operator()(const ReadOp& op) { queued.uses = {op.array}; }
    void operator()(const ReadyOp& op) {
      for (const ReadyOp::Group& group : op.groups) {
        queued.uses.insert(queued.uses.end(), group.arrays.begin(), group.arrays.end());
      }
    }
    void operator()(const DeleteOp&) {}
    void operator()(const RetainOp&) {}
    void operator()(const ReleaseOp&) {}
  };
  std::visit(Visitor{queued}, op.body);
  if (queued.uses.size() > kSnapshotArraysMax) queued.uses.resize(kSnapshotArraysMax);
  if (queued.makes.size() > kSnapshotArraysMax) queued.makes.resize(kSnapshotArraysMax);
  return queued;
}

std::string MissingWorkers(const Op& op, const ClusterView& view) {
  std::set<int32_t> missing;
  ForEachSeatList(op, [&](const std::vector<int32_t>& seats) {
    for (int32_t seat : seats) {
      if (view.state(seat) == ClusterView::SeatState::kWaiting) missing.insert(seat);
    }
  });
  constexpr size_t kNamesMax = 8;
  std::vector<std::string> names;
  for (int32_t seat : missing) {
    if (names.size() == kNamesMax) {
      names.push_back(fmt::format("{} more", missing.size() - kNamesMax));
      break;
    }
    names.push_back(view.SeatName(seat));
  }
  if (names.empty()) return "";
  return fmt::format("{}, where no worker has come in yet", absl::StrJoin(names, ", "));
}

}  // namespace switchtower
