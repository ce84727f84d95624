#include "worker/exec/outbound_transfer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "worker/exec/device_clock.h"
#include "worker/exec/host_read.h"
#include "worker/exec/peer_status.h"
#include "worker/exec/strided_copy.h"

namespace switchtower {
namespace {

// A piece for another worker's device never leaves.
FaultPoint send_fault("transfer.send", {"device"});

}  // namespace

OutboundTransfer::OutboundTransfer(Parts parts, LaunchId id, const BufferEntryPtr& source,
                                   std::vector<OutgoingPiece> pieces)
    : parts_(std::move(parts)), id_(id), pin_(std::make_shared<const EntryPin>(source)), pieces_(std::move(pieces)) {}

void OutboundTransfer::Start(Parts parts, LaunchId id, const BufferEntryPtr& source,
                             std::vector<OutgoingPiece> pieces) {
  std::shared_ptr<OutboundTransfer> self(new OutboundTransfer(std::move(parts), id, source, std::move(pieces)));
  source->OnReady([self](absl::Status status) {
    if (!status.ok()) return self->FailAll(status);
    if (!self->parts_.io->Post([self] { self->Run(); })) {
      self->FailAll(absl::CancelledError("the worker is stopping"));
    }
  });
}

void OutboundTransfer::Run() {
  const BufferEntry::Content source = pin_->entry()->content();
  std::vector<OutgoingPiece> rest;
  for (OutgoingPiece& piece : pieces_) {
    if (!CopyInEngine(piece, source)) rest.push_back(std::move(piece));
  }
  pieces_ = std::move(rest);
  if (pieces_.empty()) {
    pin_ = nullptr;
    return;
  }
  ReadDense(*parts_.engine, pin_, [self = shared_from_this()](absl::StatusOr<DenseBytes> host) {
    if (!host.ok()) return self->FailAll(host.status());
    for (const OutgoingPiece& piece : self->pieces_) self->SendPiece(piece, *host);
    self->pin_ = nullptr;
  });
}

bool OutboundTransfer::CopyInEngine(const OutgoingPiece& piece, const BufferEntry::Content& source) {
  if (piece.local == nullptr || !piece.whole || source.buffer == nullptr) return false;
  const InboundTransfer::Target& target = piece.local->target();
  if (!IsWhole(piece.box, source.buffer->shape()) || source.buffer->shape() != target.shape ||
      source.buffer->layout() != target.layout) {
    return false;
  }
  piece.local->Finish(source.buffer->device() == target.ordinal
                          ? parts_.engine->CopyToMemory(source.buffer, target.memory_kind)
                          : parts_.engine->CopyToDevice(source.buffer, target.ordinal, target.memory_kind));
  return true;
}

void OutboundTransfer::SendPiece(const OutgoingPiece& piece, const DenseBytes& host) {
  DenseBytes cut = host;
  if (host.shape.dtype != piece.dtype) {
    return FailPiece(piece, absl::InvalidArgumentError(fmt::format("a transfer from {} to an array of {}",
                                                                   Name(host.shape.dtype), Name(piece.dtype))));
  }
  if (host.shape.dtype == DType::kString) {
    if (!piece.whole) return FailPiece(piece, absl::InvalidArgumentError("string arrays can't be cut"));
  } else {
    if (absl::Status inside = CheckBoxInside(piece.box, host.shape); !inside.ok()) return FailPiece(piece, inside);
    if (!IsWhole(piece.box, host.shape)) {
      const int64_t element = HostBytes(host.shape.dtype);
      const auto size = static_cast<size_t>(BoxElements(piece.box) * element);
      std::shared_ptr<char> memory = AllocateBytes(size);
      if (memory == nullptr) {
        return FailPiece(piece, absl::ResourceExhaustedError(fmt::format(
                                    "there is no memory for the {} bytes of a piece of transfer {}", size, id_)));
      }
      CopyBox(host.bytes.data(), host.shape.dims, piece.box, memory.get(), piece.box.size,
              Box{std::vector<int64_t>(piece.box.size.size(), 0), piece.box.size}, element);
      cut = DenseBytes{std::string_view(memory.get(), size), memory, host.shape};
    }
  }
  if (piece.local != nullptr) return piece.local->AddPiece(piece.index, cut);
  if (send_fault.Fires({piece.destination.ordinal})) return;
  Fabric::OnSent on_sent;
  if (parts_.clock->on.load(std::memory_order_relaxed)) {
    TransferTimes::Span span{id_, piece.destination.worker, cut.bytes.size(), DeviceClock::Now(), 0};
    on_sent = [clock = parts_.clock, span](absl::Status) mutable {
      span.end_ns = std::max(span.begin_ns, DeviceClock::Now());
      clock->tell(span);
    };
  }
  parts_.fabric->Send(piece.destination.worker,
                      TransferMessage{id_, piece.destination.ordinal, piece.index, false}.ToHeader(),
                      Payload::Owned(cut.bytes, cut.owner), std::move(on_sent));
}

void OutboundTransfer::FailPiece(const OutgoingPiece& piece, const absl::Status& cause) {
  if (piece.local != nullptr) return piece.local->Fail(cause, /*origin=*/true);
  parts_.fabric->Send(piece.destination.worker,
                      TransferMessage{id_, piece.destination.ordinal, piece.index, true}.ToHeader(),
                      Payload(EncodePeerStatus(cause)), nullptr);
}

void OutboundTransfer::FailAll(const absl::Status& cause) {
  for (const OutgoingPiece& piece : pieces_) FailPiece(piece, cause);
  pin_ = nullptr;
}

}  // namespace switchtower
