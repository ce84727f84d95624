#include "frontdoor/host_buffer_store.h"

#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "frontdoor/chunk_cost.h"

namespace switchtower {
namespace {

uint64_t DrawKey() {
  std::random_device random;
  while (true) {
    if (const uint64_t key = (uint64_t{random()} << 32) | random(); key != 0) return key;  // 0 names none
  }
}

}  // namespace

// Fields but `chunks` are guarded by the store's mutex.
struct HostBufferStore::Entry {
  uint64_t handle = 0;
  std::shared_ptr<HostChunks> chunks = std::make_shared<HostChunks>();
  bool begun = false;
  bool taken = false;
  bool finished = false;
  int64_t waiting_bytes = 0;
  // While it waits for room, or to be taken, whichever comes first. Not longer: `ready` may hold the upload, and with
  // it this.
  absl::AnyInvocable<void()> ready;
};

HostBufferStore::HostBufferStore(int64_t waiting_bytes_max, std::shared_ptr<DownloadRoom> downloads)
    : key_(DrawKey()), waiting_bytes_max_(waiting_bytes_max), room_(std::move(downloads)) {}

HostBufferStore::~HostBufferStore() { Close(absl::CancelledError("session has ended")); }

absl::Status HostBufferStore::CheckOpen() const { return closed_; }

void HostBufferStore::AddWaiting(Entry& entry, int64_t bytes) {
  entry.waiting_bytes += bytes;
  waiting_bytes_ += bytes;
}

std::vector<absl::AnyInvocable<void()>> HostBufferStore::TakeWaiters() {
  std::vector<absl::AnyInvocable<void()>> waiters;
  if (waiting_bytes_ >= waiting_bytes_max_ && closed_.ok()) return waiters;
  for (const std::shared_ptr<Entry>& entry : wait_for_room_) waiters.push_back(std::exchange(entry->ready, nullptr));
  wait_for_room_.clear();
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
  if (chunk->empty()) return;
  {
    MutexLock lock(store_.mutex_);
    // After Close the chunk is dropped below.
    if (!entry_->taken && store_.closed_.ok()) store_.AddWaiting(*entry_, CostOf(chunk));
  }
  entry_->chunks->Append(std::move(chunk));
}

void HostBufferStore::Upload::WhenRoom(absl::AnyInvocable<void()> ready) {
  bool taken = false;
  {
    MutexLock lock(store_.mutex_);
    taken = entry_->taken;
    if (!taken && store_.waiting_bytes_ >= store_.waiting_bytes_max_ && store_.closed_.ok()) {
      entry_->ready = std::move(ready);
      store_.wait_for_room_.insert(entry_);
      return;
    }
  }
  if (taken) {
    entry_->chunks->WhenFewerHeld(std::move(ready));
  } else {
    ready();
  }
}

absl::Status HostBufferStore::Upload::Finish(absl::Status status) {
  absl::AnyInvocable<void()> fewer_awaited;
  {
    MutexLock lock(store_.mutex_);
    // Once: afterwards the handle may be another upload's.
    if (!std::exchange(entry_->finished, true) && store_.closed_.ok()) {
      store_.flowing_.erase(entry_->handle);
      if (entry_->taken && --store_.awaited_ < store_.awaited_bound_) {
        fewer_awaited = std::exchange(store_.fewer_awaited_, nullptr);
      }
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
    if (wait_for_room_.erase(entry) > 0) waiters.push_back(std::exchange(entry->ready, nullptr));
  }
  entry->chunks->Expect(expected_bytes);
  for (auto& waiter : waiters) waiter();
  HostChunks* chunks = entry->chunks.get();
  return std::shared_ptr<HostBuffer>(chunks, [owner = entry->chunks](HostBuffer*) { owner->Abandon(); });
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

void HostBufferStore::Discard(uint64_t handle) { Take(handle, -1).IgnoreError(); }

absl::Status HostBufferStore::Put(uint64_t handle, std::vector<HostBuffer::Chunk> chunks) {
  int64_t bytes = 0;
  for (const auto& chunk : chunks) bytes += static_cast<int64_t>(chunk->size());
  Download download{std::move(chunks), room_->Take(bytes)};
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  if (!downloads_.try_emplace(handle, std::move(download)).second) {
    return absl::InvalidArgumentError(fmt::format("host buffer {} was used before", handle));
  }
  download_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<HostBufferStore::Download> HostBufferStore::Lookup(uint64_t handle) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  auto it = downloads_.find(handle);
  if (it == downloads_.end()) {
    return absl::InvalidArgumentError(fmt::format("there is no host buffer {}", handle));
  }
  return it->second;
}

void HostBufferStore::Delete(uint64_t handle) {
  Download deleted;  // destroyed without the lock
  {
    MutexLock lock(mutex_);
    if (auto download = downloads_.find(handle); download != downloads_.end()) {
      deleted = std::move(download->second);
      downloads_.erase(download);
      for (const auto& chunk : deleted.chunks) download_bytes_ -= static_cast<int64_t>(chunk->size());
      return;
    }
    auto upload = uploads_.find(handle);
    if (upload == uploads_.end() || upload->second->taken) return;
  }
  Discard(handle);
}

void HostBufferStore::Close(absl::Status reason) {
  std::vector<std::shared_ptr<Entry>> entries;
  absl::flat_hash_map<uint64_t, Download> downloads;  // destroyed without the lock
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
    downloads.swap(downloads_);
    waiting_bytes_ = 0;
    download_bytes_ = 0;
    awaited_ = 0;
    waiters = TakeWaiters();
    if (fewer_awaited_) waiters.push_back(std::exchange(fewer_awaited_, nullptr));
  }
  room_->Close();
  for (const auto& entry : entries) entry->chunks->Finish(reason).IgnoreError();
  for (auto& waiter : waiters) waiter();
}

HostBufferStore::Counts HostBufferStore::counts() const {
  MutexLock lock(mutex_);
  return {waiting_bytes_, download_bytes_, uploads_.size() + flowing_.size() + downloads_.size()};
}

}  // namespace switchtower
