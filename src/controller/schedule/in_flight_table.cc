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
  for (const WorkerLinkPtr& link : record.gang->links) by_worker_[link.get()].push_back(id);
  launches_.emplace_hint(launches_.end(), id, std::move(record));
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
  auto it = by_worker_.find(&link);
  return it != by_worker_.end() && !it->second.empty() && id >= it->second.front();
}

std::vector<LaunchSnapshot> InFlightTable::Describe(std::chrono::steady_clock::time_point now) const {
  std::vector<LaunchSnapshot> snapshots;
  for (const auto& [id, record] : launches_) {
    if (snapshots.size() == kSnapshotLaunchesMax) break;
    const Launch& launch = std::get<Launch>(record.command->command());
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

void InFlightTable::EndedOn(LaunchId id) {
  auto it = launches_.find(id);
  if (it == launches_.end() || --it->second.remaining > 0) return;
  LaunchRecord record = std::move(it->second);
  launches_.erase(it);
  on_end_(id, std::move(record));
}

void InFlightTable::Completed(const WorkerLinkPtr& link, LaunchId watermark) {
  auto it = by_worker_.find(link.get());
  if (it == by_worker_.end()) return;
  std::vector<LaunchId> ended;
  while (!it->second.empty() && it->second.front() <= watermark) {
    ended.push_back(it->second.front());
    it->second.pop_front();
  }
  // The callbacks may add launches: no iterator is held across them.
  for (LaunchId id : ended) EndedOn(id);
}

void InFlightTable::Fail(LaunchId id, const WorkerLink* except, const absl::Status& cause) {
  if (LaunchRecord* record = Find(id); record != nullptr) {
    if (!record->error.ok()) return;
    record->error = WithUserContext(cause, record->user_context);
    Cancel(id, record->gang->links, except, record->error);
    return;
  }
  for (const auto& [array, transfers] : transfers_) {
    for (const Transfer& transfer : transfers) {
      if (transfer.id == id) Cancel(id, transfer.links, except, cause);
    }
  }
}

void InFlightTable::WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) {
  std::deque<LaunchId> launches;
  if (auto it = by_worker_.find(link.get()); it != by_worker_.end()) {
    launches = std::move(it->second);
    by_worker_.erase(it);
  }
  // Everybody is told before anything else happens, so that no peer waits longer than it must.
  for (LaunchId id : launches) Fail(id, link.get(), cause);
  for (const auto& [array, transfers] : transfers_) {
    for (const Transfer& transfer : transfers) {
      if (std::find(transfer.links.begin(), transfer.links.end(), link) == transfer.links.end()) continue;
      Cancel(transfer.id, transfer.links, link.get(), cause);
    }
  }
  for (LaunchId id : launches) EndedOn(id);
}

void InFlightTable::FailSession(SessionId session, const absl::Status& cause) {
  for (auto& [id, record] : launches_) {
    if (record.session != session || !record.error.ok()) continue;
    record.error = cause;
    Cancel(id, record.gang->links, nullptr, cause);
  }
  absl::erase_if(transfers_, [&](const auto& item) { return item.first.session == session; });
}

}  // namespace switchtower
