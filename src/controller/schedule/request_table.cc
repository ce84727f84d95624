#include "controller/schedule/request_table.h"

#include <algorithm>
#include <map>
#include <utility>

namespace switchtower {

void RequestTable::AwaitReady(SessionId session,
                              const std::vector<std::pair<std::vector<WorkerLinkPtr>, std::vector<ArrayId>>>& groups,
                              Callback<absl::Status> done) {
  auto wait = std::make_shared<Wait>();
  wait->done = std::move(done);
  for (const auto& [links, arrays] : groups) wait->remaining += links.size();
  if (wait->remaining == 0) {
    wait->done(absl::OkStatus());
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto& [links, arrays] = groups[group];
    for (const WorkerLinkPtr& link : links) {
      const RequestId id{next_id_++};
      Pending& pending = pending_[id];
      pending.session = session;
      pending.link = link;
      pending.wait = wait;
      pending.group = group;
      pending.since = now;
      pending.command =
          std::make_shared<const SharedCommand>(WorkerCommand(switchtower::AwaitReady{id, session, arrays}));
      link->Send(pending.command);
    }
  }
}

void RequestTable::Read(SessionId session, const WorkerLinkPtr& link, const PhysicalDevice& device, ReadOp op) {
  const RequestId id{next_id_++};
  ReadShard command;
  command.request = id;
  command.array = ArrayKey{session, op.array};
  command.device = device;
  command.byte_strides = op.byte_strides;
  Pending& pending = pending_[id];
  pending.session = session;
  pending.link = link;
  pending.read = std::make_unique<ReadOp>(std::move(op));
  pending.since = std::chrono::steady_clock::now();
  pending.command = std::make_shared<const SharedCommand>(WorkerCommand(std::move(command)));
  link->Send(pending.command);
}

void RequestTable::Finish(Pending pending, const absl::Status& status) {
  if (pending.read != nullptr) {
    pending.read->on_end(status);
    return;
  }
  Wait& wait = *pending.wait;
  if (!status.ok() && pending.group < wait.first_group) {
    wait.first_group = pending.group;
    wait.error = status;
  }
  if (--wait.remaining == 0) wait.done(wait.error);
}

void RequestTable::OnReady(const Ready& event) {
  auto it = pending_.find(event.request);
  if (it == pending_.end() || (it->second.wait == nullptr && it->second.held.ok())) return;
  Pending pending = std::move(it->second);
  pending_.erase(it);
  if (pending.held.ok()) {
    Answer(std::move(pending), event.status);
  } else {
    const absl::Status held = pending.held;
    Finish(std::move(pending), held);
  }
}

// A worker's answer may overtake its report of the launch that failed. Reports come in the order of commands: an
// empty question behind it is answered after the report.
void RequestTable::Answer(Pending pending, const absl::Status& status) {
  if (status.ok() || !pending.link->open || is_known_(pending.session, status)) {
    Finish(std::move(pending), status);
    return;
  }
  pending.held = status;
  const RequestId id{next_id_++};
  const SessionId session = pending.session;
  const WorkerLinkPtr link = pending.link;
  pending_[id] = std::move(pending);
  link->Send(WorkerCommand(switchtower::AwaitReady{id, session, {}}));
}

void RequestTable::OnReadData(ReadData event) {
  auto it = pending_.find(event.request);
  if (it == pending_.end() || it->second.read == nullptr || !it->second.held.ok()) return;
  if (event.status.ok() && event.data != nullptr && !event.data->empty()) {
    it->second.read->on_chunk(std::move(event.data));
  }
  if (event.status.ok() && !event.last) return;
  Pending pending = std::move(it->second);
  pending_.erase(it);
  Answer(std::move(pending), event.status);
}

std::vector<WaitSnapshot> RequestTable::Describe(std::chrono::steady_clock::time_point now) const {
  // Parts of one wait: the same arrays asked of several workers.
  std::map<std::pair<const Wait*, size_t>, WaitSnapshot> waits;
  std::vector<WaitSnapshot> snapshots;
  for (const auto& [id, pending] : pending_) {
    WaitSnapshot wait{pending.session, pending.read != nullptr, {}, {}, 0};
    wait.age_us = std::chrono::duration_cast<std::chrono::microseconds>(now - pending.since).count();
    if (pending.read != nullptr) {
      wait.arrays = {pending.read->array};
      wait.open_seats = {pending.link->seat};
      snapshots.push_back(std::move(wait));
      continue;
    }
    auto [it, added] = waits.try_emplace({pending.wait.get(), pending.group}, std::move(wait));
    if (added) it->second.arrays = std::get<switchtower::AwaitReady>(pending.command->command()).arrays;
    it->second.open_seats.push_back(pending.link->seat);
  }
  for (auto& [key, wait] : waits) snapshots.push_back(std::move(wait));
  for (WaitSnapshot& wait : snapshots) {
    if (wait.arrays.size() > kSnapshotArraysMax) wait.arrays.resize(kSnapshotArraysMax);
    std::sort(wait.open_seats.begin(), wait.open_seats.end());
  }
  std::sort(snapshots.begin(), snapshots.end(), [](const auto& a, const auto& b) { return a.age_us > b.age_us; });
  return snapshots;
}

template <typename Match>
void RequestTable::FailWhere(Match match, const absl::Status& cause) {
  std::vector<std::pair<RequestId, Pending>> failed;
  for (auto& [id, pending] : pending_) {
    if (match(pending)) failed.emplace_back(id, std::move(pending));
  }
  // In the order they were asked.
  std::sort(failed.begin(), failed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [id, pending] : failed) pending_.erase(id);
  for (auto& [id, pending] : failed) Finish(std::move(pending), cause);
}

void RequestTable::WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) {
  FailWhere([&](const Pending& pending) { return pending.link == link; }, cause);
}

void RequestTable::FailSession(SessionId session, const absl::Status& cause) {
  FailWhere([&](const Pending& pending) { return pending.session == session; }, cause);
}

}  // namespace switchtower
