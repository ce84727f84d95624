#include "controller/schedule/in_flight_table.h"

#include <algorithm>
#include <utility>

namespace switchtower {

void InFlightTable::Cancel(LaunchId id, const std::vector<WorkerLinkPtr>& links, const WorkerLink* except,
                           const absl::Status& cause) {
  std::shared_ptr<const SharedCommand> command;
  for (const WorkerLinkPtr& link : links) {
    if (link.get() == except || !link->open) continue;
    if (command == nullptr) command = std::make_shared<const SharedCommand>(WorkerCommand(CancelLaunch{id, cause}));
    link->Send(command);
  }
}

void InFlightTable::Add(LaunchId id, LaunchRecord record) {
  record.remaining = static_cast<int>(record.gang->links.size());
  LaunchRecord& kept = launches_.emplace_hint(launches_.end(), id, std::move(record))->second;
  for (const WorkerLinkPtr& link : kept.gang->links) {
    const auto seat = static_cast<size_t>(link->seat);
    if (seat >= lanes_.size()) lanes_.resize(seat + 1);
    Lane& lane = lanes_[seat];
    if (lane.link != link) lane = Lane{link, {}};  // what the one before it had has ended with it
    lane.open.emplace_back(id, &kept);
  }
}

const InFlightTable::Lane* InFlightTable::LaneOf(const WorkerLink& link) const {
  const auto seat = static_cast<size_t>(link.seat);
  return seat < lanes_.size() && lanes_[seat].link.get() == &link ? &lanes_[seat] : nullptr;
}

InFlightTable::Lane* InFlightTable::LaneOf(const WorkerLink& link) {
  return const_cast<Lane*>(std::as_const(*this).LaneOf(link));
}

void InFlightTable::AddTransfer(LaunchId id, ArrayKey destination, std::vector<WorkerLinkPtr> links) {
  if (links.size() < 2) return;  // nobody else to tell
  transfers_[destination].push_back(Transfer{id, std::move(links)});
}

LaunchRecord* InFlightTable::Find(LaunchId id) {
  auto it = launches_.find(id);
  return it == launches_.end() ? nullptr : &it->second;
}

const LaunchRecord* InFlightTable::Find(LaunchId id) const {
  auto it = launches_.find(id);
  return it == launches_.end() ? nullptr : &it->second;
}

// A worker ends its launches in the order in which they were sent.
bool InFlightTable::IsOpenOn(const WorkerLink& link, LaunchId id) const {
  const Lane* lane = LaneOf(link);
  return lane != nullptr && !lane->open.empty() && id >= lane->open.front().first;
}

LaunchRecord* InFlightTable::FindPrompt(LaunchId id) {
  LaunchRecord* record = Find(id);
  if (record == nullptr || !record->launch().awaited) return nullptr;
  for (const WorkerLinkPtr& link : record->gang->links) {
    const Lane* lane = LaneOf(*link);
    if (lane != nullptr && !lane->open.empty() && lane->open.front().first < id) return nullptr;
  }
  return record;
}

bool InFlightTable::TellsSoon(const WorkerLink& link) const {
  const Lane* lane = LaneOf(link);
  return lane != nullptr && !lane->open.empty() && lane->open.back().second->launch().awaited;
}

std::vector<LaunchSnapshot> InFlightTable::Describe(std::chrono::steady_clock::time_point now) const {
  std::vector<LaunchSnapshot> snapshots;
  for (const auto& [id, record] : launches_) {
    if (snapshots.size() == kSnapshotLaunchesMax) break;
    const Launch& launch = record.launch();
    const ProgramInfo& info = record.program->program->info;
    LaunchSnapshot& told = snapshots.emplace_back();
    told.id = id;
    told.session = record.session;
    told.program = record.program->program->id;
    told.name = info.name;
    told.source = info.source;
    told.call_site = record.call_site;
    told.client_launch_id = launch.client_launch_id;
    told.age_us = std::chrono::duration_cast<std::chrono::microseconds>(now - record.sent).count();
    for (const Place& place : record.program->devices->places) told.ranks.push_back({place.seat, place.ordinal});
    told.arguments = launch.arguments;
    told.results = launch.results;
    for (const WorkerLinkPtr& link : record.gang->links) {
      if (link->open && IsOpenOn(*link, id)) told.open_seats.push_back(link->seat);
    }
    if (!record.error.ok()) told.error = std::string(record.error.message());
  }
  return snapshots;
}

bool InFlightTable::EndedOn(LaunchId id, LaunchRecord& record) {
  if (--record.remaining > 0) return false;
  LaunchRecord ended = std::move(record);
  launches_.erase(id);
  on_end_(id, std::move(ended));
  return true;
}

bool InFlightTable::Completed(const WorkerLinkPtr& link, LaunchId watermark) {
  bool any = false;
  // The callbacks may add launches, and lanes: none is held across them.
  for (Lane* lane = LaneOf(*link); lane != nullptr && !lane->open.empty() && lane->open.front().first <= watermark;
       lane = LaneOf(*link)) {
    const auto [id, record] = lane->open.front();
    lane->open.pop_front();
    any |= EndedOn(id, *record);
  }
  return any;
}

void InFlightTable::Fail(LaunchId id, const WorkerLink* except, const absl::Status& cause) {
  LaunchRecord* record = Find(id);
  if (record == nullptr || !record->error.ok()) return;
  record->error = WithUserContext(cause, record->user_context);
  Cancel(id, record->gang->links, except, record->error);
}

void InFlightTable::FailTransfer(LaunchId id, const WorkerLink& reporter, const absl::Status& cause) {
  const auto is_reporter = [&](const WorkerLinkPtr& link) { return link.get() == &reporter; };
  for (const auto& [array, transfers] : transfers_) {
    for (const Transfer& transfer : transfers) {
      if (transfer.id != id || !std::any_of(transfer.links.begin(), transfer.links.end(), is_reporter)) continue;
      Cancel(id, transfer.links, nullptr, cause);
    }
  }
}

void InFlightTable::WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) {
  std::deque<std::pair<LaunchId, LaunchRecord*>> launches;
  if (Lane* lane = LaneOf(*link); lane != nullptr) launches = std::exchange(*lane, {}).open;
  // Everybody is told before anything else happens, so that no peer waits longer than it must.
  for (const auto& [id, record] : launches) Fail(id, link.get(), cause);
  for (const auto& [array, transfers] : transfers_) {
    for (const Transfer& transfer : transfers) {
      if (std::find(transfer.links.begin(), transfer.links.end(), link) == transfer.links.end()) continue;
      Cancel(transfer.id, transfer.links, link.get(), cause);
    }
  }
  for (const auto& [id, record] : launches) EndedOn(id, *record);
}

void InFlightTable::FailSession(SessionId session, const absl::Status& cause) {
  std::vector<std::pair<Callback<absl::Status>, absl::Status>> waiting;
  for (auto& [id, record] : launches_) {
    if (record.session != session) continue;
    if (record.error.ok()) {
      record.error = cause;
      Cancel(id, record.gang->links, nullptr, cause);
    }
    if (record.on_status) waiting.emplace_back(std::exchange(record.on_status, nullptr), record.error);
  }
  for (auto& [on_status, status] : waiting) on_status(status);
  absl::erase_if(transfers_, [&](const auto& item) { return item.first.session == session; });
}

}  // namespace switchtower
