#include "frontdoor/host_chunks.h"

#include <fmt/format.h>

#include "base/check.h"

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
    if (SizeError().ok() && (announced_ < 0 || received_ <= announced_)) chunks_.push_back(std::move(chunk));
  }
  Deliver();
}

absl::Status HostChunks::Finish(absl::Status status) {
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return *end_;
    if (status.ok() && received_ != announced_) {
      status =
          absl::DataLossError(fmt::format("host buffer of {} bytes was announced, {} came", announced_, received_));
    }
    end_ = status;
  }
  Deliver();
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

void HostChunks::Deliver() {
  {
    MutexLock lock(mutex_);
    if (!consuming_ || delivering_) return;
    delivering_ = true;
  }
  while (true) {
    Chunk chunk;
    absl::Status end;
    {
      MutexLock lock(mutex_);
      const absl::Status size_error = SizeError();
      if (!size_error.ok()) chunks_.clear();
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
