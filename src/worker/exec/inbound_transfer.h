// One destination shard of one transfer: gathers its pieces, then makes the buffer.
//
// Place:    worker/exec; made by TransferTable.
// Threads:  AddPiece and Fail from any thread; copying runs on the caller's (the table posts it to `io`).
// Lifetime: shared by the table and by pieces on their way.
// Errors:   the first one fills the entry; the rest is dropped.
// Invariants: the pieces' boxes lie in the shard and their sizes add up to it (checked by the table).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "types/device.h"
#include "types/shape.h"
#include "types/sharding.h"
#include "worker/engine/engine.h"
#include "worker/exec/host_read.h"
#include "worker/store/buffer_entry.h"

namespace switchtower {

class InboundTransfer {
 public:
  struct Target {
    LaunchId transfer;
    SessionId session;
    ArrayId from;
    ArrayId to;
    int32_t ordinal = 0;
    Shape shape;
    Layout layout;
    std::string memory_kind;
    BufferEntryPtr entry;
  };
  struct Piece {
    uint32_t index = 0;  // in the command
    WorkerId source;
    Box box;  // inside the shard
    bool arrived = false;
  };
  // `ended` is called once, with OK or the error that filled the entry, and whether the error began here.
  using Ended = absl::AnyInvocable<void(const absl::Status&, bool origin)>;

  InboundTransfer(Engine& engine, Target target, std::vector<Piece> pieces, Ended ended);

  const Target& target() const { return target_; }
  bool ExpectsPieceFrom(uint32_t index, WorkerId source) const;
  // A piece hasn't come and would come from there.
  bool WaitsFor(WorkerId source) const EXCLUDES(mutex_);

  // Bytes that haven't come; their sources, each once, go to `sources`.
  uint64_t Missing(std::vector<WorkerId>* sources) const EXCLUDES(mutex_);
  std::chrono::steady_clock::time_point since() const { return since_; }

  void AddPiece(uint32_t index, const DenseBytes& piece) EXCLUDES(mutex_);
  // A shard without elements, which no piece makes up.
  void MakeEmpty() { MakeBuffer(DenseBytes{}); }
  // The whole shard, made by a copy inside the engine.
  void Finish(absl::StatusOr<EngineBufferPtr> buffer) EXCLUDES(mutex_);
  void Fail(const absl::Status& cause, bool origin) EXCLUDES(mutex_);

 private:
  void MakeBuffer(const DenseBytes& whole);
  bool End() EXCLUDES(mutex_);

  Engine& engine_;
  const Target target_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  mutable Mutex mutex_;
  std::vector<Piece> pieces_;  // `arrived` is guarded by mutex_
  std::shared_ptr<char> memory_ GUARDED_BY(mutex_);
  size_t missing_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  Ended on_ended_;
};

}  // namespace switchtower
