// One host buffer on its way from a client: a stream of chunks that connects an upload with the request that
// uses the bytes, whichever comes first.
//
// Threads:    the writer side from one thread at a time; Consume from any. Callbacks run on either, one at a
//             time and in order, with no lock held. WhenFewerHeld's runs on whatever thread lets go of a chunk.
// Errors:     the consumer's on_end gets DataLoss if fewer or more bytes come than announced, InvalidArgument
//             if the announced size isn't what the array needs.
// Invariants: H-1 on_end runs exactly once after Consume, provided that Finish is called. H-2 a writer that waits for
//             WhenFewerHeld keeps no more than kHeldBytesMax and a chunk in memory, however slow those are who get it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "controller/api/session.h"

namespace switchtower {

class HostChunks final : public HostBuffer, public std::enable_shared_from_this<HostChunks> {
 public:
  // Enough for the way to a worker and its answer over any network.
  static constexpr int64_t kHeldBytesMax = int64_t{16} << 20;

  // ---- writer
  // The size that the client announces; before the first chunk.
  void Begin(int64_t size) EXCLUDES(mutex_);
  void Append(Chunk chunk) EXCLUDES(mutex_);
  // OK: all bytes were appended. Returns what the writer should answer.
  absl::Status Finish(absl::Status status) EXCLUDES(mutex_);
  // Runs `ready` once less than kHeldBytesMax is held, here or by whoever was given it, or at the end. One at a time.
  void WhenFewerHeld(absl::AnyInvocable<void()> ready) EXCLUDES(mutex_);

  // ---- reader
  // The size that the array needs; before Consume.
  void Expect(int64_t bytes) EXCLUDES(mutex_);
  void Consume(absl::AnyInvocable<void(Chunk)> on_chunk, Callback<absl::Status> on_end) override EXCLUDES(mutex_);
  int64_t size() const override EXCLUDES(mutex_);
  // Nobody will consume it, unless somebody does already: what came and what comes goes nowhere.
  void Abandon() EXCLUDES(mutex_);

 private:
  // The error that the consumer gets instead of chunks, if sizes differ.
  absl::Status SizeError() const REQUIRES(mutex_);
  // Hands over what is there, unless another thread is doing it.
  void Deliver() EXCLUDES(mutex_);
  // The same bytes; tells this when the last holder has let go of them.
  Chunk Held(Chunk chunk) REQUIRES(mutex_);
  void OnLetGo(int64_t bytes) EXCLUDES(mutex_);

  mutable Mutex mutex_;
  int64_t announced_ GUARDED_BY(mutex_) = -1;
  int64_t expected_ GUARDED_BY(mutex_) = -1;
  int64_t received_ GUARDED_BY(mutex_) = 0;
  std::deque<Chunk> chunks_ GUARDED_BY(mutex_);
  int64_t held_ GUARDED_BY(mutex_) = 0;
  absl::AnyInvocable<void()> fewer_held_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ GUARDED_BY(mutex_);
  bool consuming_ GUARDED_BY(mutex_) = false;
  bool delivering_ GUARDED_BY(mutex_) = false;
  // Set before consuming_, called only by the delivering thread.
  absl::AnyInvocable<void(Chunk)> on_chunk_;
  Callback<absl::Status> on_end_;
};

}  // namespace switchtower
