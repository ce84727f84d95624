#include "worker/collective/exchange_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/collective/message_header.h"

namespace switchtower {
namespace {

// A rank that comes to a collective is held back until its launch is cancelled.
FaultPoint join_fault("collective.join", {"rank"});

// Set while a program's thread takes peers' messages itself.
thread_local bool t_awaits_messages = false;

}  // namespace

ExchangeEngine::ExchangeEngine(Fabric& fabric, const Options& options)
    : fabric_(fabric), options_(options), pool_("collective", options.threads) {}

ExchangeEngine::~ExchangeEngine() { Stop(); }

void ExchangeEngine::Stop() {
  Failed failed;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (auto& [id, launch] : launches_) Fail(*launch, absl::CancelledError("the worker stops"), failed);
  }
  EndAll(std::move(failed));
}

void ExchangeEngine::LaunchBegins(LaunchId id, std::shared_ptr<const GangTable>) {
  MutexLock lock(mutex_);
  std::shared_ptr<ExchangeLaunch>& launch = launches_[id];
  if (launch == nullptr) {
    launch = std::make_shared<ExchangeLaunch>();
    launch->id = id;
  } else if (!launch->begun) {
    --not_begun_;
  }
  launch->begun = true;
  if (stopped_) launch->cause = absl::CancelledError("the worker stops");
  newest_begun_ = std::max(newest_begun_, id);
  if (not_begun_ == 0) return;
  // Ids begin in order, so what is older and hasn't begun never will.
  absl::erase_if(launches_, [this, id](const auto& entry) {
    if (entry.second->begun || entry.first > id) return false;
    --not_begun_;
    entry.second->exchanges.clear();
    Forget(*entry.second);
    return true;
  });
}

void ExchangeEngine::CancelLaunch(LaunchId id, absl::Status cause) {
  Failed failed;
  {
    MutexLock lock(mutex_);
    const auto it = launches_.find(id);
    if (it == launches_.end() || !it->second->begun) return;
    Fail(*it->second, std::move(cause), failed);
  }
  EndAll(std::move(failed));
}

void ExchangeEngine::LaunchEnded(LaunchId id) {
  Failed failed;
  {
    MutexLock lock(mutex_);
    const auto it = launches_.find(id);
    if (it == launches_.end()) return;
    if (!it->second->idle()) Fail(*it->second, absl::CancelledError(fmt::format("launch {} has ended", id)), failed);
    Forget(*it->second);
    launches_.erase(it);
    if (!lost_.empty()) ForgetOldLosses();
  }
  EndAll(std::move(failed));
}

void ExchangeEngine::ForgetLost(WorkerId peer) {
  MutexLock lock(mutex_);
  const auto it = lost_.find(peer);
  if (it == lost_.end()) return;
  it->second.last = newest_begun_;
  ForgetOldLosses();
}

void ExchangeEngine::ForgetOldLosses() {
  absl::erase_if(lost_, [this](const auto& entry) {
    const std::optional<LaunchId>& last = entry.second.last;
    return last.has_value() && std::none_of(launches_.begin(), launches_.end(), [&](const auto& launch) {
             return launch.second->begun && launch.first <= *last;
           });
  });
}

absl::Status ExchangeEngine::CheckPeers(const Exchange& exchange) const {
  if (lost_.empty() || !exchange.attached()) return absl::OkStatus();
  const auto check = [&](WorkerId worker, const Lost& lost) -> absl::Status {
    if (lost.last.has_value() && exchange.launch->id > *lost.last) return absl::OkStatus();
    if (!exchange.NeedsMessageOf(worker)) return absl::OkStatus();
    return absl::DataLossError(fmt::format("worker {} was lost before {}: {}", worker.value, exchange.Describe(),
                                           std::string(lost.why.message())));
  };
  // Whichever are fewer: over the months a worker may see many others come and go.
  if (lost_.size() < exchange.plan->processes.size()) {
    for (const auto& [worker, lost] : lost_) RETURN_IF_ERROR(check(worker, lost));
    return absl::OkStatus();
  }
  for (const auto& process : exchange.plan->processes) {
    const auto it = lost_.find(process.worker);
    if (it != lost_.end()) RETURN_IF_ERROR(check(it->first, it->second));
  }
  return absl::OkStatus();
}

void ExchangeEngine::Fail(ExchangeLaunch& launch, absl::Status cause, Failed& failed) {
  if (launch.cause.ok()) launch.cause = std::move(cause);
  for (auto& [key, exchange] : launch.exchanges) failed.exchanges.push_back(exchange);
  for (MemberCall& call : std::exchange(launch.held_back, {})) failed.calls.emplace_back(std::move(call), launch.cause);
}

void ExchangeEngine::EndAll(Failed failed) {
  for (const ExchangePtr& exchange : failed.exchanges) Advance(exchange, On::kElsewhere);
  for (auto& [call, cause] : failed.calls) call.done(std::move(cause));
}

bool ExchangeEngine::AwaitMessages(absl::FunctionRef<bool()> done, int looks,
                                   std::chrono::steady_clock::time_point end) {
  t_awaits_messages = true;
  const bool ended = fabric_.WaitFast(done, looks, end);
  t_awaits_messages = false;
  return ended;
}

void ExchangeEngine::Join(MemberCall call) {
  absl::Status status = FindAlgorithm(call.shape.kind).Validate(call.shape, call.plan->size());
  if (!status.ok()) {
    call.done(std::move(status));
    return;
  }
  const uint64_t fingerprint = call.shape.Fingerprint();
  ExchangePtr exchange;
  Failed failed;
  {
    MutexLock lock(mutex_);
    status = JoinExchange(call, fingerprint, exchange, failed);
  }
  EndAll(std::move(failed));
  if (!status.ok()) {
    if (call.done != nullptr) call.done(std::move(status));  // else it went into a failed exchange
    return;
  }
  if (exchange != nullptr) Advance(exchange, On::kWorker);
}

absl::Status ExchangeEngine::JoinExchange(MemberCall& call, uint64_t fingerprint, ExchangePtr& exchange,
                                          Failed& failed) {
  const auto it = launches_.find(call.launch);
  if (it == launches_.end() || !it->second->begun) {
    return absl::FailedPreconditionError(fmt::format("launch {} isn't running here", call.launch));
  }
  const std::shared_ptr<ExchangeLaunch>& launch = it->second;
  if (!launch->cause.ok()) return launch->cause;
  if (join_fault.Fires({call.plan->ranks[call.position]})) {
    launch->held_back.push_back(std::move(call));
    return absl::OkStatus();
  }
  exchange = FindExchange(launch, {call.op_id, call.iteration, call.group}, call.shape.kind);
  const bool first = !exchange->attached();
  const size_t held = launch->held_bytes;
  absl::Status status = exchange->Attach(call, fingerprint);
  held_bytes_ -= held - launch->held_bytes;
  if (status.ok() && first) status = CheckPeers(*exchange);
  if (!status.ok()) Fail(*launch, status, failed);
  return status;
}

ExchangePtr& ExchangeEngine::FindExchange(const std::shared_ptr<ExchangeLaunch>& launch, const ExchangeKey& key,
                                          CollectiveKind kind) {
  ExchangePtr& exchange = launch->exchanges[key];
  if (exchange == nullptr) exchange = std::make_shared<Exchange>(this, launch, key, kind);
  return exchange;
}

std::shared_ptr<ExchangeLaunch> ExchangeEngine::LaunchOfMessage(LaunchId id) {
  const auto it = launches_.find(id);
  if (it != launches_.end()) return it->second;
  if (stopped_ || id <= newest_begun_) return nullptr;
  auto launch = std::make_shared<ExchangeLaunch>();
  launch->id = id;
  launches_[id] = launch;
  ++not_begun_;
  return launch;
}

absl::Status ExchangeEngine::Hold(Exchange& exchange, Exchange::EarlyMessage message) {
  ExchangeLaunch& launch = *exchange.launch;
  const size_t cost = message.message.cost();
  if (launch.held_bytes + cost > options_.early_bytes_max || held_bytes_ + cost > 4 * options_.early_bytes_max) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: ranks here are too far behind, {} bytes of peers' "
                    "messages wait for them and {} for all launches",
                    exchange.Describe(), launch.held_bytes, held_bytes_));
  }
  launch.held_bytes += cost;
  held_bytes_ += cost;
  exchange.early.push_back(std::move(message));
  return absl::OkStatus();
}

void ExchangeEngine::Forget(ExchangeLaunch& launch) { held_bytes_ -= std::exchange(launch.held_bytes, 0); }

void ExchangeEngine::OnPeerMessage(WorkerId from, const MessageHeader& words, ReceivedBytes bytes) {
  const std::optional<CollectiveHeader> header = CollectiveHeader::Read(words);
  if (!header.has_value()) {
    LogError("collective message of worker {} dropped, its header makes no sense", from.value);
    return;
  }
  HeldMessage message(std::move(bytes));
  ExchangePtr exchange;
  Failed failed;
  {
    MutexLock lock(mutex_);
    const std::shared_ptr<ExchangeLaunch> launch = LaunchOfMessage(header->launch);
    if (launch == nullptr || !launch->cause.ok()) {
      stale_messages_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    exchange = FindExchange(launch, header->key, header->kind);
    if (exchange->attached()) {
      absl::Status status = exchange->Place(from, header->phase, header->fingerprint, std::move(message));
      if (!status.ok()) Fail(*launch, std::move(status), failed);
    } else {
      absl::Status status = Hold(*exchange, {from, header->phase, header->fingerprint, std::move(message)});
      if (!status.ok()) Fail(*launch, std::move(status), failed);
    }
  }
  if (!failed.empty()) {
    EndAll(std::move(failed));
  } else {
    Advance(exchange, t_awaits_messages ? On::kWorker : On::kElsewhere);
  }
}

void ExchangeEngine::OnPeerLost(WorkerId peer, absl::Status why) {
  Failed failed;
  {
    MutexLock lock(mutex_);
    lost_[peer] = Lost{why, std::nullopt};
    for (auto& [id, launch] : launches_) {
      if (!launch->cause.ok()) continue;
      for (auto& [key, exchange] : launch->exchanges) {
        if (!exchange->NeedsMessageOf(peer)) continue;
        Fail(*launch,
             absl::DataLossError(fmt::format("worker {} was lost during {}: {}", peer.value, exchange->Describe(),
                                             std::string(why.message()))),
             failed);
        break;
      }
    }
  }
  EndAll(std::move(failed));
}

CollectiveStats ExchangeEngine::stats() const {
  return {operations_.load(std::memory_order_relaxed), bytes_in_memory_.load(std::memory_order_relaxed)};
}

std::vector<PendingCollective> ExchangeEngine::Pending() const {
  std::vector<PendingCollective> pending;
  MutexLock lock(mutex_);
  for (const auto& [id, launch] : launches_) {
    for (const auto& [key, exchange] : launch->exchanges) {
      PendingCollective& entry = pending.emplace_back(PendingCollective{
          id, key.op_id, key.iteration, key.group, std::string(Name(exchange->kind)), {}, {}, exchange->since});
      if (!exchange->attached()) continue;
      const GroupPlan& plan = *exchange->plan;
      for (int position = 0; position < plan.size(); ++position) {
        const int process = plan.process_of[position];
        const bool here = process == plan.self ? exchange->members[plan.index_of[position]].here
                                               : !exchange->NeedsMessageOf(plan.processes[process].worker);
        (here ? entry.ranks_here : entry.ranks_missing).push_back(plan.ranks[position]);
      }
    }
  }
  return pending;
}

}  // namespace switchtower
