// A host buffer that is filled from a shard's read: bytes that go through the controller from one array to
// another.
//
// Threads:  any; one writer, one consumer.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "controller/api/session.h"

namespace switchtower {

class PipeBuffer : public HostBuffer {
 public:
  void Write(Chunk chunk) {
    MutexLock lock(mutex_);
    if (on_chunk_) {
      on_chunk_(std::move(chunk));
    } else {
      chunks_.push_back(std::move(chunk));
    }
  }
  void End(absl::Status status) {
    MutexLock lock(mutex_);
    if (on_end_) {
      on_end_(std::move(status));
    } else {
      end_ = std::move(status);
    }
  }
  // The callbacks only post, so that they may run under the lock, which keeps their order.
  void Consume(absl::AnyInvocable<void(Chunk)> on_chunk, Callback<absl::Status> on_end) override {
    MutexLock lock(mutex_);
    for (Chunk& chunk : chunks_) on_chunk(std::move(chunk));
    chunks_.clear();
    if (end_.has_value()) on_end(*end_);
    on_chunk_ = std::move(on_chunk);
    on_end_ = std::move(on_end);
  }
  int64_t size() const override { return -1; }

 private:
  Mutex mutex_;
  std::vector<Chunk> chunks_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ GUARDED_BY(mutex_);
  absl::AnyInvocable<void(Chunk)> on_chunk_ GUARDED_BY(mutex_);
  Callback<absl::Status> on_end_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
