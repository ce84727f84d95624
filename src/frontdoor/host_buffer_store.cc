#include "frontdoor/host_buffer_store.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {

// Fields but `chunks` are guarded by the store's mutex.
struct HostBufferStore::Entry {
  uint64_t handle = 0;
  std::shared_ptr<HostChunks> chunks = std::make_shared<HostChunks>();
  bool begun = false;
  bool taken = false;
  bool finished = false;
  int64_t waiting_bytes = 0;
  // Waits for room of an upload that isn't taken; run when it is.
  absl::AnyInvocable<void()> on_taken;
};

HostBufferStore::~HostBufferStore() { Close(absl::CancelledError("session has ended")); }

absl::Status HostBufferStore::CheckOpen() const { return closed_; }

void HostBufferStore::AddWaiting(Entry& entry, int64_t bytes) {
  entry.waiting_bytes += bytes;
  waiting_bytes_ += bytes;
}

std::vector<absl::AnyInvocable<void()>> HostBufferStore::TakeWaiters() {
  std::vector<absl::AnyInvocable<void()>> waiters;
  if (waiting_bytes_ < waiting_bytes_max_ || !closed_.ok()) waiters.swap(room_waiters_);
  return waiters;
}

absl::StatusOr<std::unique_ptr<HostBufferStore::Upload>> HostBufferStore::BeginUpload(uint64_t handle, int64_t size) {
  if (handle == 0 || size < 0) {
    return absl::InvalidArgumentError(fmt::format("upload of {} bytes to host buffer {}", size, handle));
  }
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    auto waiting = uploads_.find(handle);
    if (flowing_.contains(handle) || (waiting != uploads_.end() && waiting->second->begun)) {
      return absl::InvalidArgumentError(fmt::format("host buffer {} was uploaded before", handle));
    }
    std::shared_ptr<Entry>& slot = uploads_[handle];
    if (slot == nullptr) {
      slot = std::make_shared<Entry>();
      slot->handle = handle;
    }
    slot->begun = true;
    entry = slot;
    if (entry->taken) {
      uploads_.erase(handle);
      flowing_[handle] = entry;
    }
  }
  entry->chunks->Begin(size);
  return std::unique_ptr<Upload>(new Upload(*this, std::move(entry)));
}

void HostBufferStore::Upload::Append(HostBuffer::Chunk chunk) {
  {
    MutexLock lock(store_.mutex_);
    // After Close the chunk is dropped below.
    if (!entry_->taken && store_.closed_.ok()) store_.AddWaiting(*entry_, static_cast<int64_t>(chunk->size()));
  }
  entry_->chunks->Append(std::move(chunk));
}

void HostBufferStore::Upload::WhenRoom(absl::AnyInvocable<void()> ready) {
  {
    MutexLock lock(store_.mutex_);
    const bool room = store_.waiting_bytes_ < store_.waiting_bytes_max_;
    if (!entry_->taken && !room && store_.closed_.ok()) {
      // Whichever comes first: this buffer is taken, or there is room again.
      struct Wait {
        std::atomic<bool> over = false;
        absl::AnyInvocable<void()> ready;
      };
      auto wait = std::make_shared<Wait>();
      wait->ready = std::move(ready);
      // Whichever is left behind keeps nothing alive: `ready` may hold this upload, and with it the entry.
      auto once = [wait] {
        if (!wait->over.exchange(true)) std::exchange(wait->ready, nullptr)();
      };
      entry_->on_taken = once;
      store_.room_waiters_.push_back(once);
      return;
    }
  }
  ready();
}

absl::Status HostBufferStore::Upload::Finish(absl::Status status) {
  absl::AnyInvocable<void()> fewer_awaited;
  {
    MutexLock lock(store_.mutex_);
    const bool awaited = entry_->taken && !entry_->finished && store_.closed_.ok();
    entry_->finished = true;
    store_.flowing_.erase(entry_->handle);
    if (awaited && --store_.awaited_ < store_.awaited_bound_) {
      fewer_awaited = std::exchange(store_.fewer_awaited_, nullptr);
    }
  }
  absl::Status answer = entry_->chunks->Finish(std::move(status));
  if (fewer_awaited) fewer_awaited();
  return answer;
}

absl::StatusOr<std::shared_ptr<HostBuffer>> HostBufferStore::Take(uint64_t handle, int64_t expected_bytes) {
  std::shared_ptr<Entry> entry;
  std::vector<absl::AnyInvocable<void()>> waiters;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    if (handle == 0 || flowing_.contains(handle)) {
      return absl::InvalidArgumentError(fmt::format("host buffer {} was used before", handle));
    }
    std::shared_ptr<Entry>& slot = uploads_[handle];
    if (slot == nullptr) {
      slot = std::make_shared<Entry>();
      slot->handle = handle;
    }
    if (slot->taken) return absl::InvalidArgumentError(fmt::format("host buffer {} was used before", handle));
    slot->taken = true;
    entry = slot;
    AddWaiting(*entry, -entry->waiting_bytes);
    if (!entry->finished) ++awaited_;
    if (entry->begun) {
      uploads_.erase(handle);
      if (!entry->finished) flowing_[handle] = entry;
    }
    waiters = TakeWaiters();
    if (entry->on_taken) waiters.push_back(std::exchange(entry->on_taken, nullptr));
  }
  entry->chunks->Expect(expected_bytes);
  for (auto& waiter : waiters) waiter();
  return std::shared_ptr<HostBuffer>(entry->chunks);
}

size_t HostBufferStore::awaited() const {
  MutexLock lock(mutex_);
  return awaited_;
}

void HostBufferStore::WhenFewerAwaited(size_t bound, absl::AnyInvocable<void()> then) {
  {
    MutexLock lock(mutex_);
    if (awaited_ >= bound && closed_.ok()) {
      awaited_bound_ = bound;
      fewer_awaited_ = std::move(then);
      return;
    }
  }
  then();
}

void HostBufferStore::Discard(uint64_t handle) {
  auto buffer = Take(handle, -1);
  if (buffer.ok()) LetGo(**buffer);
}

void HostBufferStore::LetGo(HostBuffer& buffer) {
  buffer.Consume([](HostBuffer::Chunk) {}, [](absl::Status) {});
}

absl::Status HostBufferStore::Put(uint64_t handle, std::vector<HostBuffer::Chunk> chunks) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  int64_t bytes = 0;
  for (const auto& chunk : chunks) bytes += static_cast<int64_t>(chunk->size());
  if (!downloads_.emplace(handle, std::move(chunks)).second) {
    return absl::InvalidArgumentError(fmt::format("host buffer {} was used before", handle));
  }
  download_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HostBuffer::Chunk>> HostBufferStore::Lookup(uint64_t handle) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  auto it = downloads_.find(handle);
  if (it == downloads_.end()) {
    return absl::InvalidArgumentError(fmt::format("there is no host buffer {}", handle));
  }
  return it->second;
}

void HostBufferStore::Delete(uint64_t handle) {
  {
    MutexLock lock(mutex_);
    auto download = downloads_.find(handle);
    if (download != downloads_.end()) {
      for (const auto& chunk : download->second) download_bytes_ -= static_cast<int64_t>(chunk->size());
      downloads_.erase(download);
      return;
    }
    auto upload = uploads_.find(handle);
    if (upload == uploads_.end() || upload->second->taken) return;
  }
  Discard(handle);
}

void HostBufferStore::Close(absl::Status reason) {
  std::vector<std::shared_ptr<Entry>> entries;
  std::vector<absl::AnyInvocable<void()>> waiters;
  {
    MutexLock lock(mutex_);
    if (!closed_.ok()) return;
    closed_ = reason;
    for (auto& [handle, entry] : uploads_) entries.push_back(entry);
    for (auto& [handle, weak] : flowing_) {
      if (auto entry = weak.lock()) entries.push_back(std::move(entry));
    }
    uploads_.clear();
    flowing_.clear();
    downloads_.clear();
    waiting_bytes_ = 0;
    download_bytes_ = 0;
    awaited_ = 0;
    waiters = TakeWaiters();
    if (fewer_awaited_) waiters.push_back(std::exchange(fewer_awaited_, nullptr));
  }
  for (const auto& entry : entries) entry->chunks->Finish(reason).IgnoreError();
  for (auto& waiter : waiters) waiter();
}

HostBufferStore::Counts HostBufferStore::counts() const {
  MutexLock lock(mutex_);
  return {waiting_bytes_, download_bytes_, uploads_.size() + flowing_.size() + downloads_.size()};
}

}  // namespace switchtower
