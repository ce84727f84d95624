#include "controller/schedule/sequencer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "controller/schedule/op_traits.h"
#include "controller/schedule/policies/fifo_policy.h"
#include "controller/schedule/snapshots.h"

namespace switchtower {
namespace {

int64_t MachineClock() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Sequencer::Sequencer(Options options)
    : poster_(std::move(options.poster)),
      policy_(options.policy != nullptr ? std::move(options.policy) : std::make_unique<FifoPolicy>()),
      policy_needs_(policy_->needs()),
      clock_(options.clock ? std::move(options.clock) : MachineClock),
      losses_(options.losses),
      trace_(options.trace),
      view_(*options.connector, std::move(options.unreachable), poster_, losses_, *this),
      admission_(options.device_memory),
      in_flight_([this](LaunchId, LaunchRecord record) { OnLaunchEnd(std::move(record)); }),
      requests_([this](SessionId id, const absl::Status& error) {
        auto it = sessions_.find(id);
        return it == sessions_.end() || it->second.contexts.Knows(error);
      }),
      dispatcher_(view_, *losses_, admission_, in_flight_, requests_, poster_),
      window_({.launches = options.launches_ahead, .time_ns = policy_needs_.window_ns}) {}

Sequencer::~Sequencer() { Stop(absl::CancelledError("the controller stops")); }

void Sequencer::AddSession(SessionId id, std::string peer, SessionStanding standing,
                           std::vector<std::pair<DeviceId, Place>> devices, std::shared_ptr<SessionFlow> flow) {
  SessionState& session = sessions_[id];
  session.peer = std::move(peer);
  session.standing = standing;
  session.devices = std::move(devices);
  session.flow = std::move(flow);
  device_time_.AddSession(id, standing.weight);
}

void Sequencer::ServeCalls(SessionId id, std::shared_ptr<ClientCallServer> server) {
  if (auto it = sessions_.find(id); it != sessions_.end()) it->second.calls = std::move(server);
}

void Sequencer::Take(Op op) {
  auto it = sessions_.find(op.session);
  if (it == sessions_.end()) return;  // closed meanwhile: nobody waits for an answer
  SessionState& session = it->second;
  WrapAnswers(session, op);
  if (queued_ == 0) {
    if (!TrySend(session, op)) Enqueue(session, std::move(op));
  } else if (std::holds_alternative<DeleteOp>(op.body)) {
    DeleteAhead(session, it->first, std::move(op));
    Pump();  // it may have made room
  } else if (NeedsTurn(op) || session.queue.Conflicts(op) || !TrySend(session, op)) {
    Enqueue(session, std::move(op));
  }
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

void Sequencer::CountProgram(SessionState& session, const Op& op) {
  if (const auto* retain = std::get_if<RetainOp>(&op.body)) {
    ++session.programs[retain->program->program->id];
  } else if (const auto* release = std::get_if<ReleaseOp>(&op.body)) {
    auto it = session.programs.find(release->program->program->id);
    if (it != session.programs.end() && --it->second == 0) session.programs.erase(it);
  }
}

void Sequencer::FailOp(SessionState& session, Op op, const absl::Status& cause) {
  const auto* launch = std::get_if<LaunchOp>(&op.body);
  if (launch != nullptr) session.launches.Failed(launch->number);
  const bool is_launch = launch != nullptr;
  dispatcher_.Fail(std::move(op), cause);
  if (is_launch) session.flow->Ended();
}

void Sequencer::OnWorkerIn(const WorkerLinkPtr& link) {
  if (policy_needs_.launch_times || report_times_) link->Send(WorkerCommand(switchtower::ReportTimes{true}));
  Pump();
}

void Sequencer::OnWorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) {
  dispatcher_.WorkerLost(link);
  in_flight_.WorkerLost(link, cause);
  requests_.WorkerLost(link, cause);
  memory_.WorkerLost(link);
  activity_.WorkerLost(link);
  admission_.DropSeat(link->seat);
  AfterEnds();
}

void Sequencer::OnEvent(const WorkerLinkPtr& link, WorkerEvent event) {
  struct Visitor {
    Sequencer& self;
    const WorkerLinkPtr& link;
    void operator()(const Watermark& event) {
      if (self.in_flight_.Completed(link, event.completed)) self.AfterEnds();
    }
    void operator()(const LaunchFailed& event) { self.OnLaunchFailed(*link, event); }
    void operator()(const Ready& event) { self.requests_.OnReady(link, event); }
    void operator()(ReadData& event) { self.requests_.OnReadData(link, std::move(event)); }
    void operator()(const ProgramLoadFailed& event) {
      LogWarn("{}: program {} can't be loaded: {}", link->name, event.program.hash, std::string(event.cause.message()));
    }
    void operator()(const WorkerStats& event) { link->stats = event; }
    void operator()(const MemoryInUse& event) { self.memory_.OnAnswer(*link, event); }
    void operator()(const LaunchTimes& event) { self.OnLaunchTimes(link, event); }
    void operator()(const TransferTimes& event) { self.Trace(*link, event); }
    void operator()(WorkerActivity& event) { self.activity_.OnAnswer(link, std::move(event)); }
    void operator()(HostCall& event) { self.OnHostCall(link, std::move(event)); }
  };
  std::visit(Visitor{*this, link}, event);
}

void Sequencer::OnLaunchFailed(const WorkerLink& link, const LaunchFailed& event) {
  if (!event.origin) return;
  if (absl::IsDataLoss(event.cause)) dispatcher_.OnDataLoss(event.launch);
  LaunchRecord* record = in_flight_.Find(event.launch);
  if (record == nullptr) return in_flight_.FailTransfer(event.launch, link, event.cause);
  if (!Includes(record->gang->links, link)) return;
  if (auto it = sessions_.find(record->session); it != sessions_.end()) {
    it->second.contexts.Remember(event.cause, event.launch, record->user_context);
    in_flight_.Fail(event.launch, nullptr, it->second.contexts.Attach(event.cause));
    return;
  }
  in_flight_.Fail(event.launch, nullptr, event.cause);
}

void Sequencer::OnLaunchTimes(const WorkerLinkPtr& link, const LaunchTimes& event) {
  Trace(*link, event);
  if (!policy_needs_.launch_times) return;
  bool made_room = false;
  for (const LaunchTimes::Span& span : event.spans) {
    LaunchRecord* record = in_flight_.Find(span.launch);
    if (record == nullptr || !Includes(record->gang->links, *link)) continue;
    const int64_t took_ns = std::max<int64_t>(0, span.end_ns - span.begin_ns);
    device_time_.Measured(record->session, took_ns, record->expected.duration_ns);
    forecast_.Measured(record->program->program->id, took_ns);
    // The watermark may be held up by a long launch on another device of the worker; this one is free.
    if (record->gang->links.size() > 1 || record->program->calls) continue;
    const std::vector<Place>& places = record->program->devices->places;
    const Place place{link->seat, span.ordinal};
    if (std::find(places.begin(), places.end(), place) == places.end() ||
        std::find(record->done_at.begin(), record->done_at.end(), place) != record->done_at.end()) {
      continue;
    }
    record->done_at.push_back(place);
    window_.EndedAt(place, record->expected.duration_ns);
    made_room = true;
  }
  if (made_room) Pump();
}

void Sequencer::ReadMemory(std::vector<std::pair<DeviceId, Place>> devices, Callback<std::vector<DeviceMemory>> done) {
  memory_.Ask(view_, std::move(devices), admission_.limit(), std::move(done));
}

void Sequencer::OnHostCall(const WorkerLinkPtr& link, HostCall event) {
  ClientCall call;
  call.answer = [this, poster = poster_, weak = std::weak_ptr<WorkerLink>(link), request = event.request,
                 id = event.session](absl::StatusOr<std::shared_ptr<const std::string>> results) mutable {
    ReturnHostCall answer{request, results.status(), nullptr};
    if (results.ok()) answer.data = *std::move(results);
    poster->Post([this, weak, id, answer = std::move(answer)]() mutable {
      if (auto session = sessions_.find(id); session != sessions_.end()) --session->second.open_calls;
      if (WorkerLinkPtr link = weak.lock()) link->Send(std::move(answer));
    });
  };
  if (auto it = sessions_.find(event.session); it != sessions_.end()) ++it->second.open_calls;
  const LaunchRecord* record = in_flight_.Find(event.launch);
  auto session = sessions_.find(event.session);
  // A worker's word about a session counts only for launches that we sent it for that session (I-7).
  if (record == nullptr || record->session != event.session || session == sessions_.end()) {
    return call.answer(absl::CancelledError("the launch that calls its client has ended"));
  }
  if (session->second.calls == nullptr || event.rank < 0 ||
      event.rank >= static_cast<int32_t>(record->program->device_ids.size()) ||
      record->program->devices->places[event.rank].seat != link->seat) {
    return call.answer(absl::FailedPreconditionError("nobody takes calls to this session's client"));
  }
  call.callback = event.callback;
  call.launch = event.launch;
  call.device = record->program->device_ids[event.rank];
  call.operands = std::move(event.operands);
  call.results = std::move(event.results);
  call.data = std::move(event.data);
  session->second.calls->OnCall(std::move(call));
  // What the function itself launches can't wait for launches that wait for the function.
  Pump();
}

void Sequencer::OnLaunchEnd(LaunchRecord record) {
  if (!record.program->calls) {
    window_.Ended(*record.program->devices, record.expected.duration_ns, record.done_at);
    if (policy_needs_.forecast) forecast_.Ended(*record.program->devices, record.expected, clock_());
  }
  auto session = sessions_.find(record.session);
  if (session != sessions_.end()) session->second.launches.Ended(record.number, record.error.ok());
  for (RequestId question : record.questions) requests_.LaunchEnded(question, record.error);
  if (record.on_status) record.on_status(WithUserContext(record.error, record.user_context));
  if (session != sessions_.end()) session->second.flow->Ended();
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
  for (Op& op : session.queue.TakeAll()) {
    if (auto* launch = std::get_if<LaunchOp>(&op.body); launch != nullptr && launch->on_status) {
      launch->on_status(reason);
    } else if (auto* read = std::get_if<ReadOp>(&op.body)) {
      read->on_end(reason);
    } else if (auto* ready = std::get_if<ReadyOp>(&op.body)) {
      ready->done(reason);
    }
  }
  in_flight_.FailSession(id, reason);
  admission_.DropSession(id, dispatcher_.last_id());
  for (const auto& [program, uses] : session.programs) {
    for (int64_t i = 0; i < uses; ++i) dispatcher_.ReleaseProgram(program);
  }
  session.programs.clear();
  device_time_.DropSession(id);
  forecast_.DropSession(id);
  dispatcher_.EndSession(id);
  AfterEnds();
}

void Sequencer::Stop(const absl::Status& reason) {
  while (!sessions_.empty()) EndSession(sessions_.begin()->first, reason);
  view_.Close();
}

uint64_t Sequencer::AskWorkers(absl::AnyInvocable<void()> done) {
  return activity_.Ask(view_.links(), std::chrono::steady_clock::now(), std::move(done));
}

HomeSnapshot Sequencer::Snapshot() const {
  const auto now = std::chrono::steady_clock::now();
  HomeSnapshot home;
  const DispatchTotals& totals = dispatcher_.totals();
  home.epoch = view_.home_epoch();
  home.device_memory = admission_.limit();
  home.launches = totals.launches;
  home.launches_in_flight = in_flight_.size();
  home.transfers = totals.transfers;
  home.puts = totals.puts;
  home.reads = totals.reads;
  home.workers = DescribeWorkers(view_, activity_, now);
  for (const auto& [id, session] : sessions_) home.sessions.push_back(DescribeSession(id, session, now));
  home.programs = dispatcher_.DescribePrograms();
  home.in_flight = in_flight_.Describe(now);
  home.waits = requests_.Describe(now);
  home.collectives = MergeCollectives(home.workers, in_flight_);
  return home;
}

void Sequencer::ReportTimes(bool on) {
  report_times_ = on;
  if (policy_needs_.launch_times) return;  // they are told anyway
  auto command = std::make_shared<const SharedCommand>(WorkerCommand(switchtower::ReportTimes{on}));
  for (const WorkerLinkPtr& link : view_.links()) link->Send(command);
}

bool Sequencer::Dispatch(Op op, const LaunchForecast::Expectation& expected) {
  if (trace_ == nullptr || !trace_->on()) return dispatcher_.Send(std::move(op), expected);
  TraceSpan span = BeginSpan(op);
  const LaunchId before = dispatcher_.last_id();
  const bool sent = dispatcher_.Send(std::move(op), expected);
  if (dispatcher_.last_id() != before) span.launch = dispatcher_.last_id();
  span.end_ns = UnixNanoseconds();
  trace_->Add(std::move(span));
  return sent;
}

TraceSpan Sequencer::BeginSpan(const Op& op) const {
  TraceSpan span;
  span.kind = TraceSpan::Kind::kSequence;
  span.begin_ns = UnixNanoseconds();
  const QueuedSnapshot told = DescribeQueued(op);
  span.name = told.what;
  span.session = op.session;
  if (!told.makes.empty()) span.first_array = told.makes.front();
  return span;
}

void Sequencer::Trace(const WorkerLink& link, const LaunchTimes& times) {
  if (trace_ == nullptr || !trace_->on()) return;
  for (const LaunchTimes::Span& had : times.spans) {
    const LaunchRecord* record = in_flight_.Find(had.launch);
    TraceSpan span;
    span.kind = TraceSpan::Kind::kExecute;
    span.begin_ns = static_cast<uint64_t>(had.begin_ns);
    span.end_ns = static_cast<uint64_t>(had.end_ns);
    span.name = record == nullptr ? "launch" : record->program->program->info.name;
    if (record != nullptr) span.session = record->session;
    span.launch = had.launch;
    span.worker = link.name;
    span.device = had.ordinal;
    trace_->Add(std::move(span));
  }
}

void Sequencer::Trace(const WorkerLink& link, const TransferTimes& times) {
  if (trace_ == nullptr || !trace_->on()) return;
  for (const TransferTimes::Span& sent : times.spans) {
    TraceSpan span;
    span.kind = TraceSpan::Kind::kTransfer;
    span.begin_ns = static_cast<uint64_t>(sent.begin_ns);
    span.end_ns = static_cast<uint64_t>(sent.end_ns);
    span.name = "array transfer";
    span.launch = sent.transfer;
    span.worker = link.name;
    for (const WorkerLinkPtr& peer : view_.links()) {
      if (peer->info.id == sent.to) span.to_worker = peer->name;
    }
    span.bytes = sent.bytes;
    trace_->Add(std::move(span));
  }
}

SessionSnapshot Sequencer::DescribeSession(SessionId id, const SessionState& session,
                                           std::chrono::steady_clock::time_point now) const {
  SessionSnapshot told;
  told.id = id;
  told.peer = session.peer;
  told.launches_sent = session.launches_sent;
  told.launches_in_flight = session.flow->launches();
  told.operations_queued = session.queue.size();
  told.waits_for = session.queue.empty() ? "" : session.queue.front().waits_for;
  const SessionFlow::Compiles compiles = session.flow->compiles();
  told.compiles = compiles.running;
  if (compiles.running > 0) told.compile_age_us = MicrosecondsSince(compiles.oldest, now);
  for (const auto& [device, place] : session.devices) told.devices.push_back({device, {place.seat, place.ordinal}});
  for (const auto& [arrival, queued] : session.queue.entries()) {
    if (told.queue.size() == kSnapshotQueuedMax) break;
    told.queue.push_back(DescribeQueued(queued.op));
    std::string missing = MissingWorkers(queued.op, view_);
    if (missing.empty()) missing = queued.free() ? queued.waits_for : "earlier operations on its arrays";
    told.queue.back().waits_for = std::move(missing);
  }
  return told;
}

}  // namespace switchtower
