#include "worker/collective/exchange.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/status_macros.h"

namespace switchtower {

absl::Status Exchange::Attach(MemberCall& call, uint64_t call_fingerprint) {
  if (!attached()) {
    Prepare(call, call_fingerprint);
    for (EarlyMessage& message : std::exchange(early, {})) {
      launch->held_bytes -= message.message.cost();
      RETURN_IF_ERROR(Place(message.from, message.phase, message.fingerprint, std::move(message.message)));
    }
  } else if (call_fingerprint != fingerprint || call.plan->ranks != plan->ranks) {
    return absl::InvalidArgumentError(fmt::format("ranks disagree about {}", Describe()));
  }
  Member& member = members[plan->index_of[call.position]];
  if (member.here) {
    return absl::InvalidArgumentError(fmt::format("rank {} came twice to {}", plan->ranks[call.position], Describe()));
  }
  member.here = true;
  member.operands = std::move(call.operands);
  member.results = std::move(call.results);
  member.done = std::move(call.done);
  ++arrived;
  return absl::OkStatus();
}

void Exchange::Prepare(MemberCall& call, uint64_t call_fingerprint) {
  plan = call.plan;
  shape = std::move(call.shape);
  fingerprint = call_fingerprint;
  algorithm = &FindAlgorithm(shape.kind);
  phases = algorithm->phases(shape, *plan);
  members.resize(plan->local().size());
  const int processes = plan->process_count();
  if (processes == 1) return;
  for (int phase = 0; phase < phases; ++phase) {
    Inbox& inbox = inboxes[phase];
    inbox.messages.resize(processes);
    inbox.here.resize(processes, false);
    for (int p = 0; p < processes; ++p) {
      if (p != plan->self && algorithm->Receives(shape, *plan, phase, p)) ++inbox.missing;
    }
  }
  for (int slot = 0; slot < phases * processes; ++slot) {
    send_slots.push_back(SendSlot{this, slot % processes, false});
  }
}

absl::Status Exchange::Place(WorkerId from, int phase, uint64_t message_fingerprint, HeldMessage message) {
  const int process = plan->ProcessIndex(from);
  if (process < 0 || process == plan->self) {
    LogWarn("message of worker {} dropped, it has no rank in {}", from.value, Describe());
    return absl::OkStatus();
  }
  if (message_fingerprint != fingerprint) {
    return absl::InvalidArgumentError(
        fmt::format("ranks on workers {} and {} disagree about {}", from.value, plan->gang->self.value, Describe()));
  }
  if (phase >= phases || !algorithm->Receives(shape, *plan, phase, process) || inboxes[phase].here[process]) {
    return absl::DataLossError(
        fmt::format("worker {} sent a message that doesn't belong to {}", from.value, Describe()));
  }
  const std::optional<int64_t> expected = algorithm->ExpectedBytes(shape, *plan, phase, process);
  if (expected.has_value() && *expected != static_cast<int64_t>(message.size())) {
    return absl::DataLossError(
        fmt::format("worker {} sent {} bytes for {}, not {}", from.value, message.size(), Describe(), *expected));
  }
  Inbox& inbox = inboxes[phase];
  inbox.messages[process] = std::move(message);
  inbox.here[process] = true;
  --inbox.missing;
  return absl::OkStatus();
}

bool Exchange::NeedsMessageOf(WorkerId worker) const {
  if (!attached()) return false;
  const int process = plan->ProcessIndex(worker);
  if (process < 0 || process == plan->self) return false;
  for (int phase = 0; phase < phases; ++phase) {
    if (algorithm->Receives(shape, *plan, phase, process) && !inboxes[phase].here[process]) return true;
  }
  return false;
}

ExchangeView Exchange::View() const {
  ExchangeView view{*plan, shape, {}, {}};
  for (const Member& member : members) view.members.push_back({member.operands, member.results});
  return view;
}

ExchangeView Exchange::View(int phase) const {
  ExchangeView view = View();
  view.received.resize(plan->process_count());
  const Inbox& inbox = inboxes[phase];
  for (size_t p = 0; p < inbox.messages.size(); ++p) view.received[p] = inbox.messages[p].view();
  return view;
}

std::string Exchange::Describe() const { return fmt::format("{} {} of launch {}", Name(kind), key.op_id, launch->id); }

}  // namespace switchtower
