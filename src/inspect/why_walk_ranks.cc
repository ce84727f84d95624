// The part of the walk that looks at devices: what each rank of a launch is at, and which ranks a collective lacks.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "inspect/text.h"
#include "inspect/why_walk.h"

namespace switchtower {
namespace {

using introspection::Reason;

bool HasRank(const introspection::Launch& launch, int64_t rank) { return rank >= 0 && rank < launch.ranks_size(); }

bool Same(const introspection::LaunchId& a, const introspection::LaunchId& b) {
  return a.epoch() == b.epoch() && a.number() == b.number();
}

}  // namespace

// What the ranks of a launch are at, by kind.
struct WhyWalk::Ranks {
  std::set<int32_t> silent;  // seats
  RankGroup loading, waiting, running, resting;
  std::map<std::pair<uint64_t, uint64_t>, RankGroup> behind;  // by the launch at the head
  std::map<uint64_t, RankGroup> calling;                      // by the client's function
};

const introspection::Activity::Call* WhyWalk::CallOf(const introspection::DevicePlace& place,
                                                     const introspection::Activity::Task& task) const {
  const introspection::Worker* worker = index_.WorkerOn(place.seat());
  if (worker == nullptr) return nullptr;
  for (const auto& call : worker->activity().calls()) {
    if (Same(call.launch(), task.launch()) && call.rank() == task.rank()) return &call;
  }
  return nullptr;
}

// An engine takes launches ahead; the oldest that it was given has the device. One that calls its client runs beside.
const introspection::Activity::Task* WhyWalk::HolderOf(const introspection::DevicePlace& place) const {
  const introspection::Activity::Device* device = index_.DeviceAt(place);
  if (device == nullptr) return nullptr;
  for (const auto& task : device->tasks()) {
    if (task.running() && CallOf(place, task) == nullptr) return &task;
  }
  return nullptr;
}

void WhyWalk::SortRank(const introspection::Launch& launch, int rank, Ranks* ranks) const {
  const introspection::DevicePlace& place = launch.ranks(rank);
  const introspection::Worker* worker = index_.WorkerOn(place.seat());
  if (!Silence(worker).empty()) {
    ranks->silent.insert(place.seat());
    return;
  }
  const introspection::Activity::Device* device = index_.DeviceAt(place);
  if (device == nullptr) return;
  const auto add = [&](RankGroup& group, int64_t age_us) {
    group.devices.push_back(index_.DeviceName(place));
    group.age_us = std::max(group.age_us, age_us);
  };
  const introspection::Activity::Task* holder = HolderOf(place);
  for (const auto& task : device->tasks()) {
    if (!Same(task.launch(), launch.id())) continue;
    if (const auto* call = CallOf(place, task); call != nullptr) {
      add(ranks->calling[call->callback()], call->age_us());
    } else if (task.running() && holder != &task) {
      add(ranks->behind[HomeIndex::NameOf(holder->launch())], holder->age_us());
    } else if (task.running()) {
      add(ranks->running, task.age_us());
    } else if (task.program_loading()) {
      add(ranks->loading, task.age_us());
    } else {
      add(ranks->waiting, task.age_us());
      ranks->waiting.missing_arguments.insert(task.missing_arguments().begin(), task.missing_arguments().end());
    }
    return;
  }
  if (device->queued() > 0 && device->tasks_size() > 0) {
    const auto& head = device->tasks(0);
    add(ranks->behind[HomeIndex::NameOf(head.launch())], head.age_us());
  } else {
    add(ranks->resting, 0);
  }
}

void WhyWalk::ExplainOpenSeats(const introspection::Launch& launch, Reasons* out) {
  Ranks ranks;
  const std::set<int32_t> open(launch.open_seats().begin(), launch.open_seats().end());
  for (int rank = 0; rank < launch.ranks_size(); ++rank) {
    if (open.contains(launch.ranks(rank).seat())) SortRank(launch, rank, &ranks);
  }
  const auto add = [&](std::string what) { *out->Add() = Leaf(std::move(what)); };
  for (int32_t seat : ranks.silent) *out->Add() = SilenceReason(*index_.WorkerOn(seat));
  bool in_collective = false;
  for (const introspection::Collective* collective : index_.CollectivesOf(HomeIndex::NameOf(launch.id()))) {
    if (collective->ranks_out_size() + collective->ranks_unknown_size() == 0) continue;
    *out->Add() = Collective(launch, *collective);
    in_collective = true;
  }
  for (const auto& [callback, group] : ranks.calling) {
    add(fmt::format("on {} it waits for the client's Python function {}, for {}", ListText(group.devices), callback,
                    AgeText(group.age_us)));
  }
  if (!in_collective && !ranks.running.devices.empty()) {
    add(fmt::format("it runs on {}, for {}", ListText(ranks.running.devices), AgeText(ranks.running.age_us)));
  }
  if (!ranks.loading.devices.empty()) {
    add(fmt::format("its program is being loaded for {}, for {}", ListText(ranks.loading.devices),
                    AgeText(ranks.loading.age_us)));
  }
  if (!ranks.waiting.devices.empty()) {
    Reason waits = Leaf(fmt::format("it is the head of the queue on {} and waits for its arguments, for {}",
                                    ListText(ranks.waiting.devices), AgeText(ranks.waiting.age_us)));
    for (uint32_t argument : ranks.waiting.missing_arguments) {
      if (argument >= static_cast<uint32_t>(launch.arguments_size())) continue;
      *waits.add_because() = Array({launch.session(), launch.arguments(static_cast<int>(argument))});
    }
    *out->Add() = std::move(waits);
  }
  for (const auto& [head, group] : ranks.behind) {
    Reason behind = Leaf(fmt::format("it is queued on {} behind launch {}", ListText(group.devices), head.second));
    if (const introspection::Launch* other = index_.FindLaunch(head); other != nullptr) {
      *behind.add_because() = Launch(*other);
    }
    *out->Add() = std::move(behind);
  }
  if (out->empty() && !ranks.resting.devices.empty()) {
    add(fmt::format("{} {} just begun it or just ended it", ListText(ranks.resting.devices),
                    ranks.resting.devices.size() == 1 ? "has" : "have"));
  }
}

std::string WhyWalk::CollectiveText(const introspection::Collective& collective) const {
  const std::string name = collective.name().empty() ? fmt::format("op {}", collective.op_id()) : collective.name();
  std::string text = fmt::format("{} {}{}", collective.kind(), name, SiteText(collective.source()));
  if (collective.iteration() > 0) text += fmt::format(", iteration {}", collective.iteration());
  return text;
}

Reason WhyWalk::Collective(const introspection::Launch& launch, const introspection::Collective& collective) {
  const auto ranks = [](const auto& list) { return RangesText({list.begin(), list.end()}); };
  Reason reason;
  std::string what = fmt::format("{}: rank{} {} {} in, for {}", CollectiveText(collective),
                                 collective.ranks_in_size() == 1 ? "" : "s", ranks(collective.ranks_in()),
                                 collective.ranks_in_size() == 1 ? "is" : "are", AgeText(collective.age_us()));
  if (collective.ranks_in_size() == 0) what = CollectiveText(collective) + ": nobody is in yet";
  if (collective.ranks_out_size() > 0) {
    what += fmt::format("; rank{} {} {} not", collective.ranks_out_size() == 1 ? "" : "s",
                        ranks(collective.ranks_out()), collective.ranks_out_size() == 1 ? "is" : "are");
  }
  if (collective.ranks_unknown_size() > 0)
    what += fmt::format("; of {} nothing is known", ranks(collective.ranks_unknown()));
  reason.set_what(std::move(what));
  const auto name = std::make_tuple(HomeIndex::NameOf(collective.launch()), collective.op_id(), collective.iteration(),
                                    collective.group());
  if (!collectives_.insert(name).second) {
    reason.set_what(reason.what() + ", see above");
    return reason;
  }
  constexpr int kRanksMax = 16;
  for (int i = 0; i < collective.ranks_out_size() && i < kRanksMax; ++i) {
    if (!HasRank(launch, collective.ranks_out(i))) continue;
    *reason.add_because() = AbsentRank(launch, collective, collective.ranks_out(i));
  }
  std::map<int32_t, std::vector<int64_t>> unknown;  // by seat
  for (int64_t rank : collective.ranks_unknown()) {
    if (HasRank(launch, rank)) unknown[launch.ranks(static_cast<int>(rank)).seat()].push_back(rank);
  }
  for (const auto& [seat, of_seat] : unknown) {
    const introspection::Worker* worker = index_.WorkerOn(seat);
    Reason silence =
        Silence(worker).empty() ? Leaf("its worker has told nothing of itself yet") : SilenceReason(*worker);
    silence.set_what(fmt::format("rank{} {}: {}", of_seat.size() == 1 ? "" : "s", RangesText(of_seat), silence.what()));
    *reason.add_because() = std::move(silence);
  }
  return reason;
}

Reason WhyWalk::AbsentRank(const introspection::Launch& launch, const introspection::Collective& collective,
                           int64_t rank) {
  const introspection::DevicePlace& place = launch.ranks(static_cast<int>(rank));
  const std::string who = fmt::format("rank {} ({})", rank, index_.DeviceName(place));
  const introspection::Activity::Device* device = index_.DeviceAt(place);
  if (device == nullptr) return Leaf(who + ": its worker has told nothing of itself yet");
  for (const introspection::Collective* other : index_.CollectivesOf(HomeIndex::NameOf(launch.id()))) {
    const bool is_in = std::find(other->ranks_in().begin(), other->ranks_in().end(), rank) != other->ranks_in().end();
    if (other == &collective || !is_in || other->ranks_out_size() + other->ranks_unknown_size() == 0) continue;
    Reason reason = Leaf(fmt::format("{} waits in another operation", who));
    *reason.add_because() = Collective(launch, *other);
    return reason;
  }
  const introspection::Worker* worker = index_.WorkerOn(place.seat());
  const introspection::Activity::Task* holder = HolderOf(place);
  for (const auto& task : device->tasks()) {
    if (!Same(task.launch(), launch.id())) continue;
    const auto* call = CallOf(place, task);
    if (holder != &task && call == nullptr) break;
    std::string what =
        fmt::format("{} has run the launch for {} and hasn't come to this operation", who, AgeText(task.age_us()));
    if (call != nullptr) {
      what = fmt::format("{} waits for the client's Python function {}, for {}", who, call->callback(),
                         AgeText(call->age_us()));
    }
    if (worker->activity().fault_points_size() > 0) {
      what +=
          fmt::format("; its worker has fault points: {}",
                      ListText({worker->activity().fault_points().begin(), worker->activity().fault_points().end()}));
    }
    return Leaf(std::move(what));
  }
  Reason reason = Leaf(who + " hasn't started the launch");
  if (device->tasks_size() > 0) {
    ExplainTask(place, holder != nullptr ? *holder : device->tasks(0), reason.mutable_because());
  } else {
    reason.set_what(who + " has nothing to do: it has ended the launch, or hasn't got it yet");
  }
  return reason;
}

}  // namespace switchtower
