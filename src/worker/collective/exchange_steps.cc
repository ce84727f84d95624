// The steps of an exchange: send, apply, complete. See exchange_engine.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/net/payload.h"
#include "worker/collective/exchange_engine.h"
#include "worker/collective/fp_mode.h"
#include "worker/collective/message_header.h"

namespace switchtower {
namespace {

// Work on this many bytes or less is done where it comes up, even on the fabric's thread: waking another thread would
// take longer.
constexpr int64_t kInlineBytes = 64 * 1024;
// More than this is cut among several threads.
constexpr int64_t kPartBytes = 512 * 1024;
// Contiguous stretches below this are packed rather than sent one by one.
constexpr size_t kReferenceBytes = 4 * 1024;

// Where a thread of the pool, while it is at an exchange, keeps the first program that goes on by it: that one needs no
// other thread.
thread_local Task* t_next = nullptr;

int64_t WorkBytes(const Exchange& exchange) {
  return exchange.shape.operand_bytes() * exchange.plan->size() +
         exchange.shape.result_bytes() * static_cast<int64_t>(exchange.members.size());
}

void Pack(const PieceList& pieces, char* to) {
  for (const PieceList::Piece& piece : pieces.pieces()) {
    for (int64_t b = 0; b < piece.blocks; ++b) {
      std::memcpy(to, piece.data + b * piece.stride, piece.size);
      to += piece.size;
    }
  }
}

}  // namespace

void ExchangeEngine::Advance(const ExchangePtr& exchange, On on) {
  for (;;) {
    Step step;
    int phase = 0;
    {
      MutexLock lock(mutex_);
      step = NextStep(*exchange);
      phase = exchange->stage / 2;
    }
    switch (step) {
      case Step::kWait:
        return;
      case Step::kSend:
        Send(exchange, phase);
        break;
      case Step::kApply:
        if (!Apply(exchange, on)) return;
        break;
      case Step::kEnd:
        Complete(exchange);
        return;
    }
  }
}

ExchangeEngine::Step ExchangeEngine::NextStep(Exchange& exchange) {
  if (exchange.busy || exchange.ended) return Step::kWait;
  const bool failed = !exchange.launch->cause.ok();
  if (!failed && !exchange.complete_here()) return Step::kWait;
  if (failed || exchange.stage == 2 * exchange.phases) {
    if (exchange.pins > 0) return Step::kWait;
    exchange.ended = true;
    exchange.launch->exchanges.erase(exchange.key);
    return Step::kEnd;
  }
  const int phase = exchange.stage / 2;
  if (exchange.stage % 2 == 1 && exchange.inboxes[phase].missing > 0) return Step::kWait;
  exchange.busy = true;
  return exchange.stage % 2 == 0 ? Step::kSend : Step::kApply;
}

void ExchangeEngine::Send(const ExchangePtr& exchange, int phase) {
  const GroupPlan& plan = *exchange->plan;
  absl::Status status;
  if (plan.process_count() > 1) {
    const ExchangeView view = exchange->View();
    for (int offset = 1; offset < plan.process_count() && status.ok(); ++offset) {
      // Each process begins with its neighbour, so that not all send to the same one first.
      const int to = (plan.self + offset) % plan.process_count();
      if (!exchange->algorithm->Sends(exchange->shape, plan, phase, to)) continue;
      PieceList pieces;
      status = exchange->algorithm->Gather(view, phase, to, pieces);
      if (status.ok()) status = SendTo(exchange, phase, to, pieces);
    }
  }
  Failed failed;
  {
    MutexLock lock(mutex_);
    if (!status.ok()) Fail(*exchange->launch, std::move(status), failed);
    exchange->busy = false;
    ++exchange->stage;
  }
  EndAll(std::move(failed));
}

absl::Status ExchangeEngine::SendTo(const ExchangePtr& exchange, int phase, int to, const PieceList& pieces) {
  const GroupPlan& plan = *exchange->plan;
  const CollectiveHeader header{exchange->launch->id, exchange->key, exchange->shape.kind, phase,
                                exchange->fingerprint};
  const WorkerId worker = plan.processes[to].worker;
  if (pieces.bytes() <= Fabric::kFastBytesMax &&
      fabric_.TrySendFast(worker, header.Write(), pieces.bytes(), [&pieces](char* memory) { Pack(pieces, memory); })) {
    return absl::OkStatus();
  }
  Exchange::SendSlot& slot = exchange->send_slots[phase * plan.process_count() + to];
  const bool large = pieces.bytes() >= Fabric::kLargeBytes;
  slot.pinned = large && !pieces.has_owned() && pieces.bytes() / pieces.runs() >= kReferenceBytes;

  Payload payload;
  std::string_view small;
  if (slot.pinned) {
    for (const PieceList::Piece& piece : pieces.pieces()) {
      for (int64_t b = 0; b < piece.blocks; ++b) payload.Append({piece.data + b * piece.stride, piece.size}, exchange);
    }
    MutexLock lock(mutex_);
    ++exchange->pins;
  } else if (large) {
    std::shared_ptr<char> packed = AllocateBytes(pieces.bytes());
    if (packed == nullptr) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: there is no memory for a message of {} bytes", exchange->Describe(), pieces.bytes()));
    }
    Pack(pieces, packed.get());
    payload = Payload::Owned({packed.get(), pieces.bytes()}, packed);
  } else if (pieces.runs() == 1) {
    small = {pieces.pieces()[0].data, pieces.bytes()};
  } else if (pieces.bytes() > 0) {
    thread_local std::string scratch;
    scratch.resize(std::max(scratch.size(), pieces.bytes()));
    Pack(pieces, scratch.data());
    small = {scratch.data(), pieces.bytes()};
  }
  if (!large) payload = Payload::View(small);
  std::shared_ptr<const Exchange::SendSlot> alive(exchange, &slot);
  fabric_.Send(worker, header.Write(), std::move(payload),
               [alive = std::move(alive)](absl::Status status) { alive->exchange->engine->OnSent(*alive, status); });
  return absl::OkStatus();
}

void ExchangeEngine::OnSent(const Exchange::SendSlot& slot, const absl::Status& status) {
  if (status.ok() && !slot.pinned) return;
  const ExchangePtr exchange = slot.exchange->shared_from_this();
  Failed failed;
  {
    MutexLock lock(mutex_);
    if (slot.pinned) --exchange->pins;
    if (!status.ok() && !exchange->ended) {
      const uint64_t worker = exchange->plan->processes[slot.to].worker.value;
      const std::string why(status.message());
      Fail(*exchange->launch,
           absl::IsDataLoss(status)
               ? absl::DataLossError(fmt::format("worker {} was lost during {}: {}", worker, exchange->Describe(), why))
               : absl::Status(status.code(),
                              fmt::format("{} can't reach worker {}: {}", exchange->Describe(), worker, why)),
           failed);
    }
  }
  EndAll(std::move(failed));
  Advance(exchange, On::kElsewhere);
}

bool ExchangeEngine::Apply(const ExchangePtr& exchange, On on) {
  const int64_t work = WorkBytes(*exchange);
  const int parts = static_cast<int>(std::clamp<int64_t>(work / kPartBytes, 1, options_.threads));
  exchange->parts = exchange->parts_left = parts;
  const bool here = on != On::kElsewhere || work <= kInlineBytes;
  for (int part = here ? 1 : 0; part < parts; ++part) {
    pool_.Post([this, exchange, part] { RunPart(exchange, part); });
  }
  return here && ApplyPart(exchange, 0);
}

void ExchangeEngine::RunPart(const ExchangePtr& exchange, int part) {
  Task next;
  t_next = &next;
  if (ApplyPart(exchange, part)) Advance(exchange, On::kWorker);
  t_next = nullptr;
  if (next) next();
}

void ExchangeEngine::Resume(Task task) {
  if (t_next != nullptr && !*t_next) {
    *t_next = std::move(task);
  } else {
    pool_.Post(std::move(task));
  }
}

bool ExchangeEngine::ApplyPart(const ExchangePtr& exchange, int part) {
  const int phase = exchange->stage / 2;
  absl::Status status;
  {
    ScopedXlaFloatMode mode;
    status = exchange->algorithm->Apply(exchange->View(phase), phase, part, exchange->parts);
  }
  Failed failed;
  bool last = false;
  {
    MutexLock lock(mutex_);
    if (!status.ok()) Fail(*exchange->launch, std::move(status), failed);
    last = --exchange->parts_left == 0;
    if (last) {
      exchange->busy = false;
      ++exchange->stage;
    }
  }
  EndAll(std::move(failed));
  return last;
}

void ExchangeEngine::Complete(const ExchangePtr& exchange) {
  absl::Status outcome;
  {
    MutexLock lock(mutex_);
    outcome = exchange->launch->cause;
  }
  if (outcome.ok()) {
    operations_.fetch_add(exchange->members.size(), std::memory_order_relaxed);
    if (exchange->members.size() > 1) {
      bytes_in_memory_.fetch_add(exchange->members.size() * exchange->shape.operand_bytes(), std::memory_order_relaxed);
    }
  }
  for (Exchange::Member& member : exchange->members) {
    if (member.here) std::exchange(member.done, nullptr)(outcome);
  }
}

}  // namespace switchtower
