#include "controller/schedule/request_table.h"

#include <algorithm>
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
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto& [links, arrays] = groups[group];
    for (const WorkerLinkPtr& link : links) {
      const RequestId id{next_id_++};
      Pending& pending = pending_[id];
      pending.session = session;
      pending.link = link;
      pending.wait = wait;
      pending.group = group;
      link->Send(WorkerCommand(switchtower::AwaitReady{id, session, arrays}));
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
  link->Send(WorkerCommand(std::move(command)));
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
