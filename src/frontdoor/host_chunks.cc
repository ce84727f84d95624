#include "frontdoor/host_chunks.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "frontdoor/chunk_cost.h"

namespace switchtower {

void HostChunks::Begin(int64_t size) {
  {
    MutexLock lock(mutex_);
    announced_ = size;
  }
  Deliver();
}

void HostChunks::Append(Chunk chunk) {
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return;
    received_ += static_cast<int64_t>(chunk->size());
    // Nobody will want the bytes of a buffer of the wrong size; don't hold them.
    if (SizeError().ok() && (announced_ < 0 || received_ <= announced_)) chunks_.push_back(Held(std::move(chunk)));
  }
  Deliver();
}

HostBuffer::Chunk HostChunks::Held(Chunk chunk) {
  held_ += CostOf(chunk);
  const std::string* bytes = chunk.get();
  return Chunk(bytes, [weak = weak_from_this(), chunk = std::move(chunk)](const std::string*) mutable {
    const int64_t cost = CostOf(chunk);
    chunk = nullptr;
    if (auto self = weak.lock()) self->OnLetGo(cost);
  });
}

void HostChunks::OnLetGo(int64_t bytes) {
  absl::AnyInvocable<void()> ready;
  {
    MutexLock lock(mutex_);
    held_ -= bytes;
    if (held_ < kHeldBytesMax) ready = std::exchange(fewer_held_, nullptr);
  }
  if (ready) ready();
}

void HostChunks::WhenFewerHeld(absl::AnyInvocable<void()> ready) {
  {
    MutexLock lock(mutex_);
    if (held_ >= kHeldBytesMax && !end_.has_value()) {
      fewer_held_ = std::move(ready);
      return;
    }
  }
  ready();
}

absl::Status HostChunks::Finish(absl::Status status) {
  absl::AnyInvocable<void()> ready;
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return *end_;
    if (status.ok() && received_ != announced_) {
      status =
          absl::DataLossError(fmt::format("host buffer of {} bytes was announced, {} came", announced_, received_));
    }
    end_ = status;
    ready = std::exchange(fewer_held_, nullptr);
  }
  Deliver();
  if (ready) ready();
  return status;
}

void HostChunks::Expect(int64_t bytes) {
  MutexLock lock(mutex_);
  expected_ = bytes;
}

int64_t HostChunks::size() const {
  MutexLock lock(mutex_);
  return announced_;
}

absl::Status HostChunks::SizeError() const {
  if (announced_ < 0 || expected_ < 0 || announced_ == expected_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the array needs a host buffer of {} bytes, the client's has {}", expected_, announced_));
}

void HostChunks::Consume(absl::AnyInvocable<void(Chunk)> on_chunk, Callback<absl::Status> on_end) {
  {
    MutexLock lock(mutex_);
    CHECK(!consuming_);
    on_chunk_ = std::move(on_chunk);
    on_end_ = std::move(on_end);
    consuming_ = true;
  }
  Deliver();
}

void HostChunks::Abandon() {
  {
    MutexLock lock(mutex_);
    if (consuming_) return;
  }
  Consume([](Chunk) {}, [](absl::Status) {});
}

void HostChunks::Deliver() {
  {
    MutexLock lock(mutex_);
    if (!consuming_ || delivering_) return;
    delivering_ = true;
  }
  while (true) {
    std::deque<Chunk> dropped;  // without the lock, which they take
    Chunk chunk;
    absl::Status end;
    {
      MutexLock lock(mutex_);
      const absl::Status size_error = SizeError();
      if (!size_error.ok()) dropped.swap(chunks_);
      if (!chunks_.empty()) {
        chunk = std::move(chunks_.front());
        chunks_.pop_front();
      } else if (end_.has_value() || !size_error.ok()) {
        end = size_error.ok() ? *end_ : size_error;
      } else {
        delivering_ = false;
        return;
      }
    }
    if (chunk != nullptr) {
      on_chunk_(std::move(chunk));
      continue;
    }
    // The last act: delivering_ stays set, so nothing is delivered after the end.
    Callback<absl::Status> on_end = std::move(on_end_);
    on_chunk_ = nullptr;
    on_end(std::move(end));
    return;
  }
}

}  // namespace switchtower
