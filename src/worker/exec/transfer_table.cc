#include "worker/exec/transfer_table.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "worker/exec/outbound_transfer.h"
#include "worker/exec/peer_status.h"
#include "worker/exec/strided_copy.h"

namespace switchtower {

TransferTable::TransferTable(Parts parts, Emit emit) : parts_(std::move(parts)), emit_(std::move(emit)) {
  parts_.router->SetHandler(PeerMessageKind::kTransfer, this);
  clock_->tell = [this, intake = parts_.intake](TransferTimes::Span span) {
    intake->Post([this, span] { emit_(TransferTimes{{span}}); });
  };
}

TransferTable::~TransferTable() { parts_.router->SetHandler(PeerMessageKind::kTransfer, nullptr); }

void TransferTable::OnPeerMessage(WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
  const TransferMessage message = TransferMessage::FromHeader(header);
  const size_t size = bytes.size();
  std::shared_ptr<char> memory = std::move(bytes).Take();
  const std::string_view view(memory.get(), size);
  parts_.intake->Post([this, message,
                       early = Early{from, message.ordinal, message.piece, message.is_error,
                                     DenseBytes{view, std::move(memory), {}}}]() mutable {
    if (inbound_.contains(message.transfer)) return Take(message.transfer, std::move(early));
    if (message.transfer > newest_) Keep(message.transfer, std::move(early));
    // Otherwise its transfer has ended here: late.
  });
}

void TransferTable::OnPeerLost(WorkerId peer, absl::Status why) {
  parts_.intake->Post([this, peer, why = std::move(why)] { MarkLost(peer, why); });
}

void TransferTable::MarkLost(WorkerId peer, const absl::Status& why) {
  const absl::Status cause =
      absl::DataLossError(fmt::format("worker {} was lost during a transfer: {}", peer.value, why.ToString()));
  lost_[peer] = cause;
  FailWhere(cause, /*origin=*/true, [peer](const InboundTransfer& inbound) { return inbound.WaitsFor(peer); });
}

absl::Status TransferTable::Check(const TransferArray& command) const {
  if (command.id <= newest_) {
    return absl::InvalidArgumentError(fmt::format("transfer {} came after transfer {}", command.id, newest_));
  }
  for (const TransferArray::Destination& destination : command.destinations) {
    if (destination.device.worker != parts_.self) continue;
    if (destination.device.ordinal >= parts_.engine->device_count()) {
      return absl::InvalidArgumentError(fmt::format("transfer {} names device {} of {}", command.id,
                                                    destination.device.ordinal, parts_.engine->device_count()));
    }
    int64_t elements = 0;
    for (const TransferArray::Piece& piece : command.pieces) {
      if (piece.destination != destination.device) continue;
      absl::Status inside = CheckBoxInside(piece.destination_box, destination.shard_shape);
      if (!inside.ok()) return inside;
      elements += BoxElements(piece.destination_box);
    }
    if (elements != destination.shard_shape.elements()) {
      return absl::InvalidArgumentError(fmt::format("the pieces of transfer {} don't make up a shard {}", command.id,
                                                    destination.shard_shape.ToString()));
    }
  }
  return absl::OkStatus();
}

void TransferTable::Transfer(TransferArray command) {
  absl::Status status = Check(command);
  if (status.ok() && overflowed_.contains(command.id)) {
    status = absl::ResourceExhaustedError(
        fmt::format("transfer {} came too late: its data found no room to wait", command.id));
  }
  if (command.id > newest_) newest_ = command.id;
  if (!status.ok()) {
    for (const TransferArray::Destination& destination : command.destinations) {
      if (destination.device.worker != parts_.self) continue;
      parts_.store->Promise({command.session, command.to}, destination.device.ordinal)->Fail(status);
    }
    emit_(LaunchFailed{command.id, command.session, status, /*origin=*/true});
    return DropEarlyUpTo(command.id);
  }
  const std::vector<InboundPtr> inbounds = Receive(command);
  std::set<int32_t> sources;
  for (const TransferArray::Piece& piece : command.pieces) {
    if (piece.source.worker == parts_.self) sources.insert(piece.source.ordinal);
  }
  for (int32_t ordinal : sources) SendFrom(command, ordinal, inbounds);
  TakeEarly(command.id);
  if (!lost_.empty()) FailForLost(inbounds);
}

void TransferTable::FailForLost(const std::vector<InboundPtr>& inbounds) {
  for (const InboundPtr& inbound : inbounds) {
    std::vector<WorkerId> sources;
    inbound->Missing(&sources);
    for (WorkerId source : sources) {
      if (auto it = lost_.find(source); it != lost_.end()) inbound->Fail(it->second, /*origin=*/true);
    }
  }
}

std::vector<TransferTable::InboundPtr> TransferTable::Receive(const TransferArray& command) {
  std::vector<InboundPtr> inbounds;
  for (const TransferArray::Destination& destination : command.destinations) {
    if (destination.device.worker != parts_.self) continue;
    const int32_t ordinal = destination.device.ordinal;
    InboundTransfer::Target target{command.id,
                                   command.session,
                                   command.from,
                                   command.to,
                                   ordinal,
                                   destination.shard_shape,
                                   command.layout,
                                   command.memory_kind,
                                   parts_.store->Promise({command.session, command.to}, ordinal)};
    std::vector<InboundTransfer::Piece> pieces;
    for (size_t i = 0; i < command.pieces.size(); ++i) {
      const TransferArray::Piece& piece = command.pieces[i];
      if (piece.destination != destination.device) continue;
      pieces.push_back({static_cast<uint32_t>(i), piece.source.worker, piece.destination_box});
    }
    const bool no_pieces = pieces.empty();
    auto ended = [this, intake = parts_.intake, generation = generation_, id = command.id, ordinal,
                  session = command.session](const absl::Status& status, bool origin) {
      intake->Post([this, generation, id, ordinal, session, status, origin] {
        if (generation == generation_) Ended(id, ordinal, session, status, origin);
      });
    };
    inbounds.push_back(
        std::make_shared<InboundTransfer>(*parts_.engine, std::move(target), std::move(pieces), std::move(ended)));
    inbound_[command.id][ordinal] = inbounds.back();
    if (no_pieces) inbounds.back()->MakeEmpty();
  }
  return inbounds;
}

void TransferTable::SendFrom(const TransferArray& command, int32_t ordinal, const std::vector<InboundPtr>& inbounds) {
  std::vector<OutgoingPiece> pieces;
  for (size_t i = 0; i < command.pieces.size(); ++i) {
    const TransferArray::Piece& piece = command.pieces[i];
    if (piece.source != PhysicalDevice{parts_.self, ordinal}) continue;
    OutgoingPiece outgoing{static_cast<uint32_t>(i), piece.source_box, piece.destination, nullptr, false, {}};
    for (const TransferArray::Destination& destination : command.destinations) {
      if (destination.device == piece.destination) {
        outgoing.whole = IsWhole(piece.destination_box, destination.shard_shape);
        outgoing.dtype = destination.shard_shape.dtype;
      }
    }
    for (const InboundPtr& inbound : inbounds) {
      if (piece.destination == PhysicalDevice{parts_.self, inbound->target().ordinal}) outgoing.local = inbound;
    }
    pieces.push_back(std::move(outgoing));
  }
  OutboundTransfer::Start({parts_.engine, &parts_.router->fabric(), parts_.io, clock_}, command.id,
                          parts_.store->Find({command.session, command.from}, ordinal), std::move(pieces));
}

void TransferTable::TakeEarly(LaunchId transfer) {
  auto it = early_.find(transfer);
  if (it != early_.end()) {
    std::vector<Early> messages = std::move(it->second);
    early_.erase(it);
    for (Early& message : messages) {
      early_bytes_ -= message.cost();
      Take(transfer, std::move(message));
    }
  }
  DropEarlyUpTo(transfer);
}

void TransferTable::Take(LaunchId transfer, Early message) {
  auto by_ordinal = inbound_.find(transfer);
  if (by_ordinal == inbound_.end()) return;
  auto it = by_ordinal->second.find(message.ordinal);
  if (it == by_ordinal->second.end()) return;  // that shard has ended
  const InboundPtr inbound = it->second;
  if (!inbound->ExpectsPieceFrom(message.piece, message.from)) {
    LogWarn("worker {} sent piece {} of transfer {}, which isn't its own", message.from.value, message.piece, transfer);
    return;
  }
  if (message.is_error) return inbound->Fail(DecodePeerStatus(message.bytes.bytes), /*origin=*/false);
  const bool posted = parts_.io->Post(
      [inbound, piece = message.piece, bytes = std::move(message.bytes)] { inbound->AddPiece(piece, bytes); });
  if (!posted) inbound->Fail(absl::CancelledError("the worker is stopping"), /*origin=*/false);
}

void TransferTable::Keep(LaunchId transfer, Early message) {
  if (overflowed_.contains(transfer)) return;
  const size_t cost = message.cost();
  if (early_bytes_ + cost > kEarlyBytesMax) {
    const auto of_peer = [&](const auto& lost) { return lost.second == message.from; };
    if (std::count_if(overflowed_.begin(), overflowed_.end(), of_peer) >= kOverflowedMax) {
      MarkLost(message.from, absl::ResourceExhaustedError("it sends data for transfers that nobody asked for"));
      return DropEarlyOf(message.from);
    }
    overflowed_.emplace(transfer, message.from);
    LogWarn("transfer {}: data came before its command and found no room, {} bytes wait", transfer, early_bytes_);
    return;
  }
  early_bytes_ += cost;
  early_[transfer].push_back(std::move(message));
}

void TransferTable::DropEarlyUpTo(LaunchId transfer) {
  while (!early_.empty() && early_.begin()->first <= transfer) {
    for (const Early& message : early_.begin()->second) early_bytes_ -= message.cost();
    early_.erase(early_.begin());
  }
  overflowed_.erase(overflowed_.begin(), overflowed_.upper_bound(transfer));
}

void TransferTable::DropEarlyOf(WorkerId peer) {
  for (auto it = early_.begin(); it != early_.end();) {
    std::erase_if(it->second, [&](const Early& message) {
      if (message.from == peer) early_bytes_ -= message.cost();
      return message.from == peer;
    });
    it = it->second.empty() ? early_.erase(it) : std::next(it);
  }
}

void TransferTable::Ended(LaunchId transfer, int32_t ordinal, SessionId session, const absl::Status& status,
                          bool origin) {
  auto it = inbound_.find(transfer);
  if (it == inbound_.end()) return;
  if (!status.ok() && told_.insert(transfer).second) emit_(LaunchFailed{transfer, session, status, origin});
  it->second.erase(ordinal);
  if (!it->second.empty()) return;
  inbound_.erase(it);
  told_.erase(transfer);
}

void TransferTable::FailWhere(const absl::Status& cause, bool origin,
                              absl::AnyInvocable<bool(const InboundTransfer&)> which) {
  // Ended comes by way of the intake queue, so that the table doesn't change under us.
  for (const auto& [id, by_ordinal] : inbound_) {
    for (const auto& [ordinal, inbound] : by_ordinal) {
      if (which(*inbound)) inbound->Fail(cause, origin);
    }
  }
}

void TransferTable::Cancel(LaunchId transfer, const absl::Status& cause) {
  auto it = inbound_.find(transfer);
  if (it == inbound_.end()) return;
  for (const auto& [ordinal, inbound] : it->second) inbound->Fail(cause, /*origin=*/false);
}

void TransferTable::CancelSession(SessionId session, const absl::Status& cause) {
  FailWhere(cause, /*origin=*/false,
            [session](const InboundTransfer& inbound) { return inbound.target().session == session; });
}

void TransferTable::Describe(WorkerActivity* activity) const {
  std::vector<const InboundTransfer*> waiting;
  for (const auto& [id, by_ordinal] : inbound_) {
    for (const auto& [ordinal, inbound] : by_ordinal) waiting.push_back(inbound.get());
  }
  std::sort(waiting.begin(), waiting.end(), [](const auto* a, const auto* b) { return a->since() < b->since(); });
  if (waiting.size() > kActivityEntriesMax) waiting.resize(kActivityEntriesMax);
  const auto now = std::chrono::steady_clock::now();
  for (const InboundTransfer* inbound : waiting) {
    const InboundTransfer::Target& target = inbound->target();
    WorkerActivity::Transfer& told = activity->transfers.emplace_back();
    told.id = target.transfer;
    told.session = target.session;
    told.from = target.from;
    told.to = target.to;
    told.ordinal = target.ordinal;
    told.bytes_missing = inbound->Missing(&told.sources);
    told.age_us = std::chrono::duration_cast<std::chrono::microseconds>(now - inbound->since()).count();
  }
}

void TransferTable::Reset(const absl::Status& cause) {
  ++generation_;
  FailWhere(cause, /*origin=*/false, [](const InboundTransfer&) { return true; });
  inbound_.clear();
  told_.clear();
  early_.clear();
  early_bytes_ = 0;
  overflowed_.clear();
  ReportTimes(false);
}

}  // namespace switchtower
