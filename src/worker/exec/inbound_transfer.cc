#include "worker/exec/inbound_transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/net/payload.h"
#include "worker/exec/strided_copy.h"

namespace switchtower {

InboundTransfer::InboundTransfer(Engine& engine, Target target, std::vector<Piece> pieces, Ended ended)
    : engine_(engine),
      target_(std::move(target)),
      pieces_(std::move(pieces)),
      missing_(pieces_.size()),
      on_ended_(std::move(ended)) {}

bool InboundTransfer::ExpectsPieceFrom(uint32_t index, WorkerId source) const {
  for (const Piece& piece : pieces_) {
    if (piece.index == index) return piece.source == source;
  }
  return false;
}

bool InboundTransfer::WaitsFor(WorkerId source) const {
  MutexLock lock(mutex_);
  for (const Piece& piece : pieces_) {
    if (!piece.arrived && piece.source == source) return true;
  }
  return false;
}

uint64_t InboundTransfer::Missing(std::vector<WorkerId>* sources) const {
  const int64_t element = target_.shape.dtype == DType::kString ? 0 : HostBytes(target_.shape.dtype);
  uint64_t bytes = 0;
  MutexLock lock(mutex_);
  for (const Piece& piece : pieces_) {
    if (piece.arrived) continue;
    bytes += static_cast<uint64_t>(BoxElements(piece.box) * element);
    if (std::find(sources->begin(), sources->end(), piece.source) == sources->end()) sources->push_back(piece.source);
  }
  return bytes;
}

void InboundTransfer::AddPiece(uint32_t index, const DenseBytes& bytes) {
  const Piece* piece = nullptr;
  char* to = nullptr;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    for (Piece& candidate : pieces_) {
      if (candidate.index != index || candidate.arrived) continue;
      candidate.arrived = true;
      piece = &candidate;
    }
    if (piece == nullptr) return;
    if (pieces_.size() > 1) {
      if (memory_ == nullptr) memory_ = AllocateBytes(static_cast<size_t>(target_.shape.host_bytes()));
      to = memory_.get();
    }
  }
  if (pieces_.size() > 1 && to == nullptr) {
    return Fail(absl::ResourceExhaustedError(fmt::format("there is no memory for the {} bytes of transfer {}",
                                                         target_.shape.host_bytes(), target_.transfer)),
                /*origin=*/true);
  }
  const bool text = target_.shape.dtype == DType::kString;
  const int64_t element = HostBytes(target_.shape.dtype);
  if (!text && static_cast<int64_t>(bytes.bytes.size()) != BoxElements(piece->box) * element) {
    return Fail(
        absl::DataLossError(fmt::format("piece {} of transfer {} has {} bytes instead of {}", index, target_.transfer,
                                        bytes.bytes.size(), BoxElements(piece->box) * element)),
        /*origin=*/true);
  }
  if (to == nullptr) return MakeBuffer(bytes);
  CopyBox(bytes.bytes.data(), piece->box.size, Box{std::vector<int64_t>(piece->box.size.size(), 0), piece->box.size},
          to, target_.shape.dims, piece->box, element);
  std::shared_ptr<char> memory;
  {
    MutexLock lock(mutex_);
    if (--missing_ > 0) return;
    memory = std::move(memory_);
  }
  const std::string_view whole(memory.get(), static_cast<size_t>(target_.shape.host_bytes()));
  MakeBuffer(DenseBytes{whole, std::move(memory), target_.shape});
}

void InboundTransfer::MakeBuffer(const DenseBytes& whole) {
  if (target_.shape.dtype == DType::kString) {
    if (!End()) return;
    target_.entry->FillBytes(std::make_shared<const std::string>(whole.bytes));
    return on_ended_(absl::OkStatus(), false);
  }
  Finish(engine_.FromHost(target_.ordinal, target_.memory_kind,
                          HostData{whole.bytes.data(), whole.owner, target_.shape, {}}, target_.layout));
}

void InboundTransfer::Finish(absl::StatusOr<EngineBufferPtr> buffer) {
  if (!buffer.ok()) return Fail(buffer.status(), /*origin=*/true);
  if (!End()) return;
  target_.entry->Fill(*std::move(buffer), nullptr);
  on_ended_(absl::OkStatus(), false);
}

void InboundTransfer::Fail(const absl::Status& cause, bool origin) {
  if (!End()) return;
  target_.entry->Fail(cause);
  on_ended_(cause, origin);
}

bool InboundTransfer::End() {
  MutexLock lock(mutex_);
  return !std::exchange(ended_, true);
}

}  // namespace switchtower
