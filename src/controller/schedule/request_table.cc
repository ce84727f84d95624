#include "controller/schedule/request_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "controller/schedule/gang_table.h"

namespace switchtower {

RequestId RequestTable::Ask(Purpose purpose, std::vector<WorkerLinkPtr> links, absl::Status held) {
  const RequestId id{++last_id_};
  Question& question = questions_[id];
  question.purpose = std::move(purpose);
  question.links = std::move(links);
  question.answered.resize(question.links.size());
  question.open = question.links.size();
  question.since = std::chrono::steady_clock::now();
  question.held = std::move(held);
  return id;
}

void RequestTable::Send(RequestId id, WorkerCommand command) {
  Question& question = questions_.at(id);
  question.command = std::make_shared<const SharedCommand>(std::move(command));
  const WorkerChannel::When when = WhenAwaited(question.links.size());
  for (const WorkerLinkPtr& link : question.links) link->Send(question.command, when);
}

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
    if (links.empty()) continue;
    const RequestId id = Ask({session, wait, group, nullptr}, links, absl::OkStatus());
    Send(id, switchtower::AwaitReady{id, session, arrays});
  }
}

RequestId RequestTable::AwaitLaunch(SessionId session, std::vector<WorkerLinkPtr> links, std::vector<ArrayId> arrays,
                                    Callback<absl::Status> done) {
  auto wait = std::make_shared<Wait>();
  wait->done = std::move(done);
  wait->remaining = links.size();
  const RequestId id = Ask({session, std::move(wait), 0, nullptr}, std::move(links), absl::OkStatus());
  questions_.at(id).command =
      std::make_shared<const SharedCommand>(switchtower::AwaitReady{id, session, std::move(arrays)});
  return id;
}

void RequestTable::LaunchEnded(RequestId id, const absl::Status& status) {
  auto it = questions_.find(id);
  if (it == questions_.end()) return;  // its session has ended
  const Question question = std::move(it->second);
  questions_.erase(it);
  for (size_t i = 0; i < question.open; ++i) Finish(question.purpose, status);
}

void RequestTable::Read(SessionId session, const WorkerLinkPtr& link, const PhysicalDevice& device, ReadOp op) {
  ReadShard command;
  command.array = ArrayKey{session, op.array};
  command.device = device;
  command.byte_strides = op.byte_strides;
  const RequestId id = Ask({session, nullptr, 0, std::make_shared<ReadOp>(std::move(op))}, {link}, absl::OkStatus());
  command.request = id;
  Send(id, std::move(command));
}

void RequestTable::Finish(const Purpose& purpose, const absl::Status& status) {
  if (purpose.read != nullptr) {
    purpose.read->on_end(status);
    return;
  }
  Wait& wait = *purpose.wait;
  if (!status.ok() && purpose.group < wait.first_group) {
    wait.first_group = purpose.group;
    wait.error = status;
  }
  if (--wait.remaining == 0) wait.done(wait.error);
}

std::optional<RequestTable::Answered> RequestTable::TakeAnswer(RequestId id, const WorkerLink& link) {
  auto it = questions_.find(id);
  if (it == questions_.end()) return std::nullopt;
  Question& question = it->second;
  const auto at = std::lower_bound(question.links.begin(), question.links.end(), link.seat,
                                   [](const WorkerLinkPtr& one, int32_t seat) { return one->seat < seat; });
  const auto index = static_cast<size_t>(at - question.links.begin());
  if (at == question.links.end() || at->get() != &link || question.answered[index]) return std::nullopt;
  question.answered[index] = true;
  Answered answered{question.purpose, question.held};
  if (--question.open == 0) questions_.erase(it);
  return answered;
}

void RequestTable::OnReady(const WorkerLinkPtr& link, const Ready& event) {
  if (auto it = questions_.find(event.request);
      it != questions_.end() && it->second.purpose.read != nullptr && it->second.held.ok()) {
    return;  // a read isn't answered so
  }
  const std::optional<Answered> answered = TakeAnswer(event.request, *link);
  if (!answered.has_value()) return;
  if (answered->held.ok()) {
    Answer(link, *answered, event.status);
  } else {
    Finish(answered->purpose, answered->held);
  }
}

// A worker's answer may overtake its report of the launch that failed. Reports come in the order of commands: an
// empty question behind it is answered after the report.
void RequestTable::Answer(const WorkerLinkPtr& link, const Answered& answered, const absl::Status& status) {
  const SessionId session = answered.purpose.session;
  if (status.ok() || !link->open || is_known_(session, status)) {
    Finish(answered.purpose, status);
    return;
  }
  const RequestId id = Ask(answered.purpose, {link}, status);
  Send(id, switchtower::AwaitReady{id, session, {}});
}

void RequestTable::OnReadData(const WorkerLinkPtr& link, ReadData event) {
  auto it = questions_.find(event.request);
  if (it == questions_.end() || it->second.purpose.read == nullptr || !it->second.held.ok()) return;
  if (!Includes(it->second.links, *link)) return;
  if (event.status.ok() && event.data != nullptr && !event.data->empty()) {
    it->second.purpose.read->on_chunk(std::move(event.data));
  }
  if (event.status.ok() && !event.last) return;
  if (std::optional<Answered> answered = TakeAnswer(event.request, *link)) Answer(link, *answered, event.status);
}

std::vector<WaitSnapshot> RequestTable::Describe(std::chrono::steady_clock::time_point now) const {
  // An answer that is held is still one to the question that it was given to.
  std::map<std::pair<const void*, size_t>, WaitSnapshot> waits;
  for (const auto& [id, question] : questions_) {
    const Purpose& purpose = question.purpose;
    const bool is_read = purpose.read != nullptr;
    const void* what = is_read ? static_cast<const void*>(purpose.read.get()) : purpose.wait.get();
    WaitSnapshot& told = waits[{what, purpose.group}];
    told.session = purpose.session;
    told.read = is_read;
    told.age_us =
        std::max(told.age_us, std::chrono::duration_cast<std::chrono::microseconds>(now - question.since).count());
    if (is_read) {
      told.arrays = {purpose.read->array};
    } else if (told.arrays.empty()) {
      told.arrays = std::get<switchtower::AwaitReady>(question.command->command()).arrays;
    }
    for (size_t i = 0; i < question.links.size(); ++i) {
      if (!question.answered[i]) told.open_seats.push_back(question.links[i]->seat);
    }
  }
  std::vector<WaitSnapshot> snapshots;
  for (auto& [key, wait] : waits) snapshots.push_back(std::move(wait));
  for (WaitSnapshot& wait : snapshots) {
    if (wait.arrays.size() > kSnapshotArraysMax) wait.arrays.resize(kSnapshotArraysMax);
    std::sort(wait.open_seats.begin(), wait.open_seats.end());
  }
  std::sort(snapshots.begin(), snapshots.end(), [](const auto& a, const auto& b) { return a.age_us > b.age_us; });
  return snapshots;
}

void RequestTable::WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) {
  std::vector<RequestId> asked;
  for (const auto& [id, question] : questions_) {
    if (std::find(question.links.begin(), question.links.end(), link) != question.links.end()) asked.push_back(id);
  }
  std::sort(asked.begin(), asked.end());  // in the order they were asked
  for (RequestId id : asked) {
    if (const std::optional<Answered> answered = TakeAnswer(id, *link)) Finish(answered->purpose, cause);
  }
}

void RequestTable::FailSession(SessionId session, const absl::Status& cause) {
  std::vector<std::pair<RequestId, Question>> failed;
  for (auto& [id, question] : questions_) {
    if (question.purpose.session == session) failed.emplace_back(id, std::move(question));
  }
  std::sort(failed.begin(), failed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [id, question] : failed) questions_.erase(id);
  for (const auto& [id, question] : failed) {
    for (size_t i = 0; i < question.open; ++i) Finish(question.purpose, cause);
  }
}

}  // namespace switchtower
