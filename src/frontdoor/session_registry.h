// Which sessions are open: their host buffers by key, their streams for the server's stop.
//
// Threads:    any.
// Invariants: R-1 a session's host buffers can be found from before its client learns the key until it closes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "frontdoor/host_buffer_store.h"

namespace switchtower {

// What is asked of all streams.
class StoppableStream {
 public:
  virtual ~StoppableStream() = default;
  virtual void Stop() = 0;
  // Ends the session that the stream has here, if it has one; the client hears why.
  virtual void EndOwnSession(const absl::Status& why) = 0;
};

class SessionRegistry {
 public:
  // FailedPrecondition once the server stops.
  absl::Status AddStream(std::weak_ptr<StoppableStream> stream) EXCLUDES(mutex_);
  // By the destructor of each stream that was added.
  void RemoveStream() EXCLUDES(mutex_);

  void AddBuffers(std::shared_ptr<HostBufferStore> buffers) EXCLUDES(mutex_);
  void RemoveBuffers(uint64_t key) EXCLUDES(mutex_);
  absl::StatusOr<std::shared_ptr<HostBufferStore>> FindBuffers(uint64_t key) const EXCLUDES(mutex_);

  void EndOwnSessions(const absl::Status& why) EXCLUDES(mutex_);
  // Stops all streams and accepts no more.
  void Stop() EXCLUDES(mutex_);
  // Returns when the last stream is gone. After Stop.
  void WaitUntilEmpty() EXCLUDES(mutex_);

  struct Counts {
    size_t sessions = 0;
    int64_t waiting_upload_bytes = 0;
    int64_t download_bytes = 0;
  };
  Counts counts() const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar empty_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  size_t stream_count_ GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<StoppableStream>> streams_ GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<HostBufferStore>> buffers_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
