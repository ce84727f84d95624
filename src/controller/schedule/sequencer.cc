#include "controller/schedule/sequencer.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "controller/schedule/op_traits.h"

namespace switchtower {

Sequencer::Sequencer(Options options)
    : poster_(std::move(options.poster)),
      policy_(options.policy != nullptr ? std::move(options.policy) : std::make_unique<FifoPolicy>()),
      losses_(options.losses),
      view_(*options.connector, std::move(options.unreachable), poster_, losses_, *this),
      admission_(options.device_memory),
      in_flight_([this](LaunchId, LaunchRecord record) { OnLaunchEnd(std::move(record)); }),
      requests_([this](SessionId id, const absl::Status& error) {
        auto it = sessions_.find(id);
        return it == sessions_.end() || it->second.contexts.Knows(error);
      }),
      dispatcher_(view_, *losses_, admission_, in_flight_, requests_, poster_) {}

Sequencer::~Sequencer() { Stop(absl::CancelledError("the controller stops")); }

void Sequencer::AddSession(SessionId id, std::string peer, std::shared_ptr<SessionFlow> flow) {
  SessionState& session = sessions_[id];
  session.peer = std::move(peer);
  session.flow = std::move(flow);
}

void Sequencer::ServeCalls(SessionId id, std::shared_ptr<ClientCallServer> server) {
  if (auto it = sessions_.find(id); it != sessions_.end()) it->second.calls = std::move(server);
}

void Sequencer::Take(Op op) {
  auto it = sessions_.find(op.session);
  if (it == sessions_.end()) return;  // closed meanwhile: nobody waits for an answer
  SessionState& session = it->second;
  WrapAnswers(session, op);
  if (session.queue.empty() && !(memory_blocked_ && NeedsMemory(op))) {
    if (TrySend(session, op) == Outcome::kGone) {
      if (queued_ > 0) Pump();  // a delete may have made room
      return;
    }
  } else if (std::holds_alternative<DeleteOp>(op.body)) {
    DeleteAhead(session, it->first, std::move(op));
    Pump();
    return;
  }
  Enqueue(session, std::move(op));
}

// Errors that workers report get the user context of the request that first failed.
void Sequencer::WrapAnswers(SessionState& session, Op& op) {
  const auto wrap = [this, id = op.session](Callback<absl::Status> done) -> Callback<absl::Status> {
    return [this, id, done = std::move(done)](absl::Status status) mutable {
      auto it = sessions_.find(id);
      done(it == sessions_.end() ? std::move(status) : it->second.contexts.Attach(std::move(status)));
    };
  };
  if (auto* read = std::get_if<ReadOp>(&op.body)) read->on_end = wrap(std::move(read->on_end));
  if (auto* ready = std::get_if<ReadyOp>(&op.body)) ready->done = wrap(std::move(ready->done));
}

Sequencer::Outcome Sequencer::TrySend(SessionState& session, Op& op) {
  bool wait = false;
  if (absl::Status status = dispatcher_.Check(op, &wait); !status.ok()) {
    FailOp(session, std::move(op), status);
    return Outcome::kGone;
  }
  if (wait) return Outcome::kWaitsForWorkers;
  if (admission_.enabled() && NeedsMemory(op)) {
    std::vector<ArrayId> donated;
    if (const auto* launch = std::get_if<LaunchOp>(&op.body)) {
      for (uint32_t index : launch->donated) donated.push_back(launch->arguments[index]);
    }
    const std::vector<AdmissionLedger::Need> needs = NeedsOf(op).All();
    switch (admission_.Ask(op.session, needs, donated, !in_flight_.empty())) {
      case AdmissionLedger::Verdict::kFits:
        break;
      case AdmissionLedger::Verdict::kWait:
        return Outcome::kWaitsForMemory;
      case AdmissionLedger::Verdict::kNever:
        AdmissionLedger::Names names;
        names.place = [&](const Place& place) {
          return fmt::format("{} device {}", view_.SeatName(place.seat), place.ordinal);
        };
        names.is_running = [&](LaunchId id) { return in_flight_.Find(id) != nullptr; };
        absl::Status error = admission_.Explain(op.session, Describe(op), needs, names);
        FailOp(session, std::move(op), error);
        return Outcome::kGone;
    }
  }
  CountProgram(session, op);
  const bool is_launch = std::holds_alternative<LaunchOp>(op.body);
  const bool is_delete = std::holds_alternative<DeleteOp>(op.body);
  if (!dispatcher_.Send(std::move(op))) {
    session.flow->Ended();
  } else if (is_launch) {
    ++session.launches_sent;
  }
  if (is_delete && in_flight_.empty()) admission_.Ended(false, {});
  return Outcome::kGone;
}

void Sequencer::CountProgram(SessionState& session, const Op& op) {
  if (const auto* retain = std::get_if<RetainOp>(&op.body)) {
    ++session.programs[retain->program->program->id];
  } else if (const auto* release = std::get_if<ReleaseOp>(&op.body)) {
    auto it = session.programs.find(release->program->program->id);
    if (it != session.programs.end() && --it->second == 0) session.programs.erase(it);
  }
}

void Sequencer::FailOp(SessionState& session, Op op, const absl::Status& cause) {
  const bool is_launch = std::holds_alternative<LaunchOp>(op.body);
  dispatcher_.Fail(std::move(op), cause);
  if (is_launch) session.flow->Ended();
}

void Sequencer::Enqueue(SessionState& session, Op op) {
  ForEachArray(op, [&](ArrayId id) { ++session.queued_uses[id]; });
  session.queue.push_back(QueuedOp{std::move(op), ++arrivals_});
  ++queued_;
  Pump();
}

Op Sequencer::Dequeue(SessionState& session) {
  Op op = std::move(session.queue.front().op);
  session.queue.pop_front();
  --queued_;
  ForEachArray(op, [&](ArrayId id) {
    auto it = session.queued_uses.find(id);
    if (--it->second == 0) session.queued_uses.erase(it);
  });
  return op;
}

void Sequencer::DeleteAhead(SessionState& session, SessionId id, Op op) {
  DeleteOp waiting, ahead;
  for (DeleteOp::Group& group : std::get<DeleteOp>(op.body).groups) {
    DeleteOp::Group later{group.devices, group.stamp, {}}, now = later;
    for (ArrayId array : group.arrays) {
      (session.queued_uses.contains(array) ? later : now).arrays.push_back(array);
    }
    if (!later.arrays.empty()) waiting.groups.push_back(std::move(later));
    if (!now.arrays.empty()) ahead.groups.push_back(std::move(now));
  }
  if (!ahead.groups.empty()) {
    Op now{id, op.stamp, op.user_context, std::move(ahead)};
    TrySend(session, now);
  }
  if (!waiting.groups.empty()) Enqueue(session, Op{id, op.stamp, op.user_context, std::move(waiting)});
}

void Sequencer::Pump() {
  if (pumping_ || queued_ == 0) return;
  pumping_ = true;
  memory_blocked_ = false;
  std::set<SessionId> stuck;
  std::vector<LaunchCandidate> candidates;
  while (queued_ > 0) {
    candidates.clear();
    for (const auto& [id, session] : sessions_) {
      if (session.queue.empty() || stuck.contains(id)) continue;
      const QueuedOp& head = session.queue.front();
      if (memory_blocked_ && NeedsMemory(head.op)) continue;  // in order: nobody takes the head's room
      candidates.push_back(LaunchCandidate{id, head.arrival, session.launches_sent});
    }
    if (candidates.empty()) break;
    const SessionId id = candidates[policy_->Choose(candidates)].session;
    SessionState& session = sessions_[id];
    // The head leaves the queue before it is sent, so that its own arrays don't count as queued.
    const uint64_t arrival = session.queue.front().arrival;
    Op op = Dequeue(session);
    const Outcome outcome = TrySend(session, op);
    if (outcome == Outcome::kGone) {
      session.waits_for = "";
      continue;
    }
    ForEachArray(op, [&](ArrayId array) { ++session.queued_uses[array]; });
    session.queue.push_front(QueuedOp{std::move(op), arrival});
    ++queued_;
    stuck.insert(id);
    session.waits_for = outcome == Outcome::kWaitsForMemory ? "memory" : "workers";
    if (outcome == Outcome::kWaitsForMemory) memory_blocked_ = true;
  }
  pumping_ = false;
}

void Sequencer::OnWorkerIn(const WorkerLinkPtr&) { Pump(); }

void Sequencer::OnWorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) {
  dispatcher_.WorkerLost(link);
  in_flight_.WorkerLost(link, cause);
  requests_.WorkerLost(link, cause);
  memory_.WorkerLost(link);
  admission_.DropSeat(link->seat);
  AfterEnds();
}

void Sequencer::OnEvent(const WorkerLinkPtr& link, WorkerEvent event) {
  struct Visitor {
    Sequencer& self;
    const WorkerLinkPtr& link;
    void operator()(const Watermark& event) {
      self.in_flight_.Completed(link, event.completed);
      self.AfterEnds();
    }
    void operator()(const LaunchFailed& event) { self.OnLaunchFailed(event); }
    void operator()(const Ready& event) { self.requests_.OnReady(event); }
    void operator()(ReadData& event) { self.requests_.OnReadData(std::move(event)); }
    void operator()(const ProgramLoadFailed& event) {
      LogWarn("{}: program {} can't be loaded: {}", link->name, event.program.hash, std::string(event.cause.message()));
    }
    void operator()(const WorkerStats& event) { link->stats = event; }
    void operator()(const MemoryInUse& event) { self.memory_.OnAnswer(event); }
    void operator()(const LaunchTimes&) {}  // asked for by those who listen
    void operator()(HostCall& event) { self.OnHostCall(link, std::move(event)); }
  };
  std::visit(Visitor{*this, link}, event);
}

void Sequencer::OnLaunchFailed(const LaunchFailed& event) {
  LaunchRecord* record = in_flight_.Find(event.launch);
  if (record == nullptr) {
    if (event.origin) in_flight_.Fail(event.launch, nullptr, event.cause);  // a transfer
    return;
  }
  if (!event.origin) return;
  if (auto it = sessions_.find(record->session); it != sessions_.end()) {
    it->second.contexts.Remember(event.cause, event.launch, record->user_context);
    in_flight_.Fail(event.launch, nullptr, it->second.contexts.Attach(event.cause));
    return;
  }
  in_flight_.Fail(event.launch, nullptr, event.cause);
}

void Sequencer::ReadMemory(std::vector<std::pair<DeviceId, Place>> devices, Callback<std::vector<DeviceMemory>> done) {
  memory_.Ask(view_, std::move(devices), admission_.limit(), std::move(done));
}

void Sequencer::OnHostCall(const WorkerLinkPtr& link, HostCall event) {
  ClientCall call;
  call.answer = [poster = poster_, weak = std::weak_ptr<WorkerLink>(link),
                 request = event.request](absl::StatusOr<std::shared_ptr<const std::string>> results) mutable {
    ReturnHostCall answer{request, results.status(), nullptr};
    if (results.ok()) answer.data = *std::move(results);
    poster->Post([weak, answer = std::move(answer)]() mutable {
      if (WorkerLinkPtr link = weak.lock()) link->Send(std::move(answer));
    });
  };
  const LaunchRecord* record = in_flight_.Find(event.launch);
  auto session = sessions_.find(event.session);
  // A worker's word about a session counts only for launches that we sent it for that session (I-7).
  if (record == nullptr || record->session != event.session || session == sessions_.end()) {
    return call.answer(absl::CancelledError("the launch that calls its client has ended"));
  }
  if (session->second.calls == nullptr || event.rank < 0 ||
      event.rank >= static_cast<int32_t>(record->program->device_ids.size())) {
    return call.answer(absl::FailedPreconditionError("nobody takes calls to this session's client"));
  }
  call.callback = event.callback;
  call.launch = event.launch;
  call.device = record->program->device_ids[event.rank];
  call.operands = std::move(event.operands);
  call.results = std::move(event.results);
  call.data = std::move(event.data);
  session->second.calls->OnCall(std::move(call));
}

void Sequencer::OnLaunchEnd(LaunchRecord record) {
  if (record.on_status) record.on_status(WithUserContext(record.error, record.user_context));
  if (auto it = sessions_.find(record.session); it != sessions_.end()) it->second.flow->Ended();
}

void Sequencer::AfterEnds() {
  if (admission_.enabled()) {
    admission_.Ended(!in_flight_.empty(), in_flight_.empty() ? LaunchId{} : in_flight_.oldest());
  }
  Pump();
}

void Sequencer::EndSession(SessionId id, const absl::Status& reason) {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  SessionState session = std::move(it->second);
  sessions_.erase(it);
  queued_ -= session.queue.size();
  requests_.FailSession(id, reason);
  for (QueuedOp& queued : session.queue) {
    if (auto* launch = std::get_if<LaunchOp>(&queued.op.body); launch != nullptr && launch->on_status) {
      launch->on_status(reason);
    } else if (auto* read = std::get_if<ReadOp>(&queued.op.body)) {
      read->on_end(reason);
    } else if (auto* ready = std::get_if<ReadyOp>(&queued.op.body)) {
      ready->done(reason);
    }
  }
  in_flight_.FailSession(id, reason);
  admission_.DropSession(id, dispatcher_.last_id());
  for (const auto& [program, uses] : session.programs) {
    for (int64_t i = 0; i < uses; ++i) dispatcher_.ReleaseProgram(program);
  }
  session.queue.clear();
  session.programs.clear();
  dispatcher_.EndSession(id);
  AfterEnds();
}

void Sequencer::Stop(const absl::Status& reason) {
  while (!sessions_.empty()) EndSession(sessions_.begin()->first, reason);
  view_.Close();
}

HomeSnapshot Sequencer::Snapshot() const {
  HomeSnapshot home;
  const DispatchTotals& totals = dispatcher_.totals();
  home.epoch = view_.home_epoch();
  home.launches = totals.launches;
  home.launches_in_flight = in_flight_.size();
  home.transfers = totals.transfers;
  home.puts = totals.puts;
  home.reads = totals.reads;
  for (const WorkerLinkPtr& link : view_.links()) {
    home.workers.push_back(
        {link->info.id, link->name, link->commands_sent, link->channel->queued_bytes(), link->stats});
  }
  for (const auto& [id, session] : sessions_) {
    home.sessions.push_back(
        {id, session.peer, session.launches_sent, session.flow->in_flight(), session.queue.size(), session.waits_for});
  }
  return home;
}

}  // namespace switchtower
