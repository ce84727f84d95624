// The part of the sequencer that decides: what of the sessions' operations goes, and when.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "controller/schedule/op_traits.h"
#include "controller/schedule/sequencer.h"

namespace switchtower {
namespace {

// Free operations of a session that a round looks at. The others wait behind them.
constexpr int kLookahead = 64;

// What a queued operation counts in the session's flow. Launches and questions count already, from the client's request
// to their end; what frees memory never holds its client up; a host array holds its bytes here until it is sent.
size_t WeightOf(const Op& op) {
  if (std::holds_alternative<LaunchOp>(op.body) || std::holds_alternative<DeleteOp>(op.body) ||
      std::holds_alternative<ReadyOp>(op.body) || std::holds_alternative<ReadOp>(op.body)) {
    return 0;
  }
  int64_t bytes = 0;
  if (const auto* put = std::get_if<PutOp>(&op.body)) {
    for (const PutOp::Shard& shard : put->shards) bytes = AddBytes(bytes, std::max<int64_t>(0, shard.bytes));
  }
  return 1 + static_cast<size_t>(bytes / SessionFlow::kBytesPerLaunch);
}

}  // namespace

bool Sequencer::NeedsTurn(const Op& op) const {
  return std::holds_alternative<LaunchOp>(op.body) || (admission_.enabled() && NeedsMemory(op));
}

bool Sequencer::HasRoom(const SessionState& session, const LaunchOp& launch) const {
  // What calls its client takes as long as somebody's function does and runs beside the queue; and what that function
  // launches may be what the rest waits for.
  return launch.program->calls || session.open_calls > 0 || window_.HasRoom(*launch.program->devices);
}

Sequencer::Verdict Sequencer::Judge(const SessionState& session, const Op& op, const OpQueue::Entry* queued) const {
  bool wait = false;
  if (absl::Status status = dispatcher_.Check(op, &wait); !status.ok()) return {Outcome::kFails, std::move(status)};
  if (wait) return {Outcome::kWaitsForWorkers, {}};
  const auto* launch = std::get_if<LaunchOp>(&op.body);
  if (launch != nullptr && !HasRoom(session, *launch)) return {Outcome::kWaitsForRoom, {}};
  if (admission_.enabled() && NeedsMemory(op)) return JudgeMemory(session, op, queued);
  return {Outcome::kGoes, {}};
}

Sequencer::Verdict Sequencer::JudgeMemory(const SessionState& session, const Op& op,
                                          const OpQueue::Entry* queued) const {
  std::vector<ArrayId> donated;
  if (const auto* launch = std::get_if<LaunchOp>(&op.body)) {
    for (uint32_t index : launch->donated) donated.push_back(launch->arguments[index]);
  }
  const std::vector<AdmissionLedger::Need> needs = queued != nullptr ? queued->needs : NeedsOf(op).All();
  if (queued != nullptr && session.queued_memory.oldest() != queued->arrival) {
    // It overtakes others: only where there is room for all that is queued.
    for (const AdmissionLedger::Need& need : needs) {
      const auto has_room = [this](int64_t bytes) { return bytes <= admission_.limit(); };
      if (!admission_.used().AllOf(*need.devices, &session.queued_memory.bytes(), has_room)) {
        return {Outcome::kWaitsForOlder, {}};
      }
    }
  }
  switch (admission_.Ask(op.session, needs, donated, !in_flight_.empty())) {
    case AdmissionLedger::Verdict::kFits:
      return {Outcome::kGoes, {}};
    case AdmissionLedger::Verdict::kWait:
      return {Outcome::kWaitsForMemory, {}};
    case AdmissionLedger::Verdict::kNever:
      break;
  }
  AdmissionLedger::Names names;
  names.place = [&](const Place& place) {
    return fmt::format("{} device {}", view_.SeatName(place.seat), place.ordinal);
  };
  names.is_running = [&](LaunchId id) { return in_flight_.Contains(id); };
  return {Outcome::kFails, admission_.Explain(op.session, Describe(op), needs, names)};
}

bool Sequencer::TrySend(SessionState& session, Op& op) {
  // Memory is asked for in order: not past what is queued.
  if (admission_.enabled() && !session.queue.empty() && NeedsMemory(op)) return false;
  const Verdict verdict = Judge(session, op, nullptr);
  if (verdict.outcome == Outcome::kGoes) {
    Send(session, std::move(op));
  } else if (verdict.outcome == Outcome::kFails) {
    FailOp(session, std::move(op), verdict.error);
  } else {
    return false;
  }
  return true;
}

bool Sequencer::TryQueued(SessionState& session, OpQueue::Entry& entry) {
  const Verdict verdict = Judge(session, entry.op, &entry);
  switch (verdict.outcome) {
    case Outcome::kGoes:
    case Outcome::kFails: {
      // It leaves the queue before it is sent, so that its own arrays don't count as queued.
      if (admission_.enabled()) session.queued_memory.Remove(entry.arrival, entry.needs);
      const size_t weight = entry.weight;
      Op op = session.queue.Remove(entry.arrival);
      --queued_;
      session.flow->Ended(weight);
      if (verdict.outcome == Outcome::kGoes) {
        Send(session, std::move(op));
      } else {
        FailOp(session, std::move(op), verdict.error);
      }
      // Who is the oldest now may have been tried in this round, when it wasn't.
      auto oldest = session.queue.free_in_turn().find(session.queued_memory.oldest());
      if (oldest != session.queue.free_in_turn().end()) oldest->second->tried_in = 0;
      return true;
    }
    case Outcome::kWaitsForWorkers:
      entry.waits_for = "workers";
      break;
    case Outcome::kWaitsForRoom:
      entry.waits_for = "launches ahead of it";
      break;
    case Outcome::kWaitsForMemory:
      entry.waits_for = "memory";
      break;
    case Outcome::kWaitsForOlder:
      entry.waits_for = "earlier operations";
      break;
  }
  entry.tried_in = round_;
  if (verdict.outcome == Outcome::kWaitsForRoom || verdict.outcome == Outcome::kWaitsForMemory) KeepDevices(entry.op);
  return false;
}

void Sequencer::KeepDevices(const Op& op) {
  const DeviceList& devices = *TakesRoomOn(op);
  for (const Place& place : devices.places) kept_in_[place] = round_;
  kept_.push_back(&devices);
}

void Sequencer::Send(SessionState& session, Op op) {
  if (std::holds_alternative<LaunchOp>(op.body)) return SendLaunch(session, std::move(op));
  CountProgram(session, op);
  if (policy_needs_.forecast) forecast_.Passed(op);
  if (auto* ready = std::get_if<ReadyOp>(&op.body)) ready->maker = session.launches.Of(ready->launch);
  if (std::holds_alternative<ReadyOp>(op.body) || std::holds_alternative<ReadOp>(op.body)) session.launches.Asked();
  const bool is_delete = std::holds_alternative<DeleteOp>(op.body);
  Dispatch(std::move(op));
  if (is_delete && in_flight_.empty()) admission_.Ended(false, {});
}

void Sequencer::SendLaunch(SessionState& session, Op op) {
  auto& launch = std::get<LaunchOp>(op.body);
  launch.awaited = session.launches.TakeAsked();
  const uint64_t number = launch.number;
  const SessionId id = op.session;
  const PlacedProgramPtr program = launch.program;
  const bool counts = program->calls == nullptr;
  LaunchForecast::Expectation expected;
  if (policy_needs_.forecast) {
    expected = forecast_.Expect(id, launch, clock_());
    if (counts) forecast_.Sent(id, launch, expected);
  } else if (policy_needs_.launch_times) {
    expected.duration_ns = forecast_.Duration(program->program->id);
  }
  if (counts) window_.Sent(*program->devices, expected.duration_ns);
  if (Dispatch(std::move(op), expected)) {
    session.launches.Sent(number, dispatcher_.last_id());
    ++session.launches_sent;
    if (policy_needs_.launch_times) {
      device_time_.Sent(id, expected.duration_ns * static_cast<int64_t>(program->devices->places.size()));
    }
    return;
  }
  session.launches.Failed(number);
  if (counts) window_.Ended(*program->devices, expected.duration_ns);
  if (counts && policy_needs_.forecast) forecast_.Ended(*program->devices, expected, clock_());
  session.flow->Ended();
}

void Sequencer::Enqueue(SessionState& session, Op op) {
  const bool in_turn = NeedsTurn(op);
  OpQueue::Entry& entry = session.queue.Add(std::move(op), ++arrivals_, in_turn);
  ++queued_;
  entry.weight = WeightOf(entry.op);
  session.flow->Began(entry.weight);
  if (admission_.enabled() && NeedsMemory(entry.op)) {
    entry.needs = NeedsOf(entry.op).All();
    session.queued_memory.Add(entry.arrival, entry.needs);
  }
  // The others couldn't go before, and nothing has changed for them.
  if (!entry.free()) return;
  const auto* launch = std::get_if<LaunchOp>(&entry.op.body);
  if (launch != nullptr && !HasRoom(session, *launch)) {
    entry.waits_for = "launches ahead of it";
    return;
  }
  Pump();
}

void Sequencer::DeleteAhead(SessionState& session, SessionId id, Op op) {
  DeleteOp waiting, ahead;
  for (DeleteOp::Group& group : std::get<DeleteOp>(op.body).groups) {
    DeleteOp::Group later{group.devices, group.stamp, {}}, now = later;
    for (ArrayId array : group.arrays) {
      (session.queue.Uses(array) ? later : now).arrays.push_back(array);
    }
    if (!later.arrays.empty()) waiting.groups.push_back(std::move(later));
    if (!now.arrays.empty()) ahead.groups.push_back(std::move(now));
  }
  if (!ahead.groups.empty()) Send(session, Op{id, op.stamp, op.user_context, std::move(ahead)});
  if (!waiting.groups.empty()) Enqueue(session, Op{id, op.stamp, op.user_context, std::move(waiting)});
}

bool Sequencer::IsKept(const DeviceList& devices) const {
  return !kept_.empty() && std::any_of(devices.places.begin(), devices.places.end(), [&](const Place& place) {
    const uint64_t* round = kept_in_.Find(place);
    return round != nullptr && *round == round_;
  });
}

void Sequencer::SendWithoutTurn(SessionState& session) {
  const auto send = [&](const std::map<uint64_t, OpQueue::Entry*>& free) {
    // What leaves may free others, which come later.
    for (auto it = free.begin(); it != free.end();) {
      const uint64_t arrival = it->first;
      if (it->second->tried_in != round_) TryQueued(session, *it->second);
      it = free.upper_bound(arrival);
    }
  };
  send(session.queue.free_at_once());
  if (session.open_calls > 0) send(session.queue.free_in_turn());
}

void Sequencer::GatherCandidates() {
  candidates_.clear();
  candidate_entries_.clear();
  const int64_t now_ns = policy_needs_.forecast ? clock_() : 0;
  for (auto& [id, session] : sessions_) {
    if (session.queue.empty()) continue;
    SendWithoutTurn(session);
    int seen = 0;
    for (const auto& [arrival, entry] : session.queue.free_in_turn()) {
      if (++seen > kLookahead) break;
      if (entry->tried_in == round_) continue;
      // All of its devices are kept for one before it: the policy needn't look at it.
      if (std::find(kept_.begin(), kept_.end(), TakesRoomOn(entry->op)) != kept_.end()) {
        entry->waits_for = "its turn";
        continue;
      }
      LaunchCandidate& candidate = candidates_.emplace_back();
      candidate.session = id;
      candidate.arrival = arrival;
      candidate.priority = session.standing.priority;
      candidate.virtual_ns = device_time_.VirtualTime(id);
      if (policy_needs_.forecast) forecast_.Describe(entry->op, now_ns, candidate);
      candidate_entries_.push_back(entry);
    }
  }
}

void Sequencer::Pump() {
  if (pumping_ || queued_ == 0) return;
  pumping_ = true;
  ++round_;
  kept_.clear();
  while (queued_ > 0) {
    GatherCandidates();
    if (candidates_.empty()) break;
    const size_t chosen = policy_->Choose(policy_needs_.forecast ? clock_() : 0, candidates_);
    OpQueue::Entry& entry = *candidate_entries_[chosen];
    if (!IsKept(*TakesRoomOn(entry.op))) {
      TryQueued(sessions_.at(candidates_[chosen].session), entry);
      continue;
    }
    // It can't go before one that the policy wanted first; nor can others then before it.
    entry.tried_in = round_;
    entry.waits_for = "its turn";
    KeepDevices(entry.op);
  }
  pumping_ = false;
}

}  // namespace switchtower
