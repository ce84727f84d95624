#include "frontdoor/session_registry.h"

#include <algorithm>

namespace switchtower {

absl::Status SessionRegistry::AddStream(std::weak_ptr<StoppableStream> stream) {
  MutexLock lock(mutex_);
  ++stream_count_;
  if (stopped_) return absl::FailedPreconditionError("the server is stopping");
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), [](const auto& old) { return old.expired(); }),
                 streams_.end());
  streams_.push_back(std::move(stream));
  return absl::OkStatus();
}

void SessionRegistry::RemoveStream() {
  MutexLock lock(mutex_);
  // Under the lock: the waiter may destroy this object as soon as it sees zero.
  if (--stream_count_ == 0) empty_.NotifyAll();
}

void SessionRegistry::AddBuffers(std::shared_ptr<HostBufferStore> buffers) {
  const uint64_t key = buffers->key();
  MutexLock lock(mutex_);
  buffers_[key] = std::move(buffers);
}

void SessionRegistry::RemoveBuffers(uint64_t key) {
  std::shared_ptr<HostBufferStore> removed;  // destroyed without the lock
  MutexLock lock(mutex_);
  auto it = buffers_.find(key);
  if (it == buffers_.end()) return;
  removed = std::move(it->second);
  buffers_.erase(it);
}

absl::StatusOr<std::shared_ptr<HostBufferStore>> SessionRegistry::FindBuffers(uint64_t key) const {
  MutexLock lock(mutex_);
  auto it = buffers_.find(key);
  if (it == buffers_.end()) {
    return absl::FailedPreconditionError("the session of this host buffer doesn't exist or has ended");
  }
  return it->second;
}

void SessionRegistry::EndOwnSessions(const absl::Status& why) {
  std::vector<std::weak_ptr<StoppableStream>> streams;
  {
    MutexLock lock(mutex_);
    streams = streams_;
  }
  for (const auto& weak : streams) {
    if (auto stream = weak.lock()) stream->EndOwnSession(why);
  }
}

void SessionRegistry::Stop() {
  std::vector<std::weak_ptr<StoppableStream>> streams;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    streams.swap(streams_);
  }
  for (const auto& weak : streams) {
    if (auto stream = weak.lock()) stream->Stop();
  }
}

void SessionRegistry::WaitUntilEmpty() {
  MutexLock lock(mutex_);
  while (stream_count_ > 0) empty_.Wait(mutex_);
}

SessionRegistry::Counts SessionRegistry::counts() const {
  MutexLock lock(mutex_);
  Counts counts;
  counts.sessions = buffers_.size();
  for (const auto& [id, buffers] : buffers_) {
    const HostBufferStore::Counts own = buffers->counts();
    counts.waiting_upload_bytes += own.waiting_bytes;
    counts.download_bytes += own.download_bytes;
  }
  return counts;
}

}  // namespace switchtower
