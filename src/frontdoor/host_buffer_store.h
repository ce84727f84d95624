// The host buffers of one session: uploads that wait for the request that uses them (or the other way round),
// and downloads that wait to be fetched.
//
// Place:      frontdoor; between the host buffer RPCs and the request handlers.
// Threads:    any.
// Lifetime:   shared by the session and the RPCs under way; Close() ends every wait.
// Errors:     InvalidArgument for a handle that is used twice; the reason of Close() afterwards.
// Invariants: B-1 a buffer is taken once. B-2 bytes of uploads that nobody has taken stay below the bound plus
//             one chunk for each RPC: above it, uploads aren't read on. An upload that is taken is read as fast as
//             its own bytes are passed on (HostChunks), whatever the others do, so that no request waits for bytes that
//             wait for it. What was taken and is then dropped goes nowhere.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "controller/api/session.h"
#include "frontdoor/download_room.h"
#include "frontdoor/host_chunks.h"

namespace switchtower {

class HostBufferStore {
 private:
  struct Entry;

 public:
  static constexpr int64_t kDownloadBytesMax = int64_t{1} << 30;
  explicit HostBufferStore(int64_t waiting_bytes_max,
                           std::shared_ptr<DownloadRoom> downloads = std::make_shared<DownloadRoom>(kDownloadBytesMax));
  ~HostBufferStore();
  HostBufferStore(const HostBufferStore&) = delete;
  HostBufferStore& operator=(const HostBufferStore&) = delete;

  // What RPCs name it by. Drawn at random and told to the session's client alone: the session's number is seen by
  // whoever asks what the cluster is at (I-7).
  uint64_t key() const { return key_; }

  // ---- uploads, the RPC's side
  // One upload; the RPC calls Finish in any case.
  class Upload {
   public:
    void Append(HostBuffer::Chunk chunk);
    // Runs `ready`, one at a time, once more may be read: now, or when bytes were taken or passed on, or at Close.
    void WhenRoom(absl::AnyInvocable<void()> ready);
    absl::Status Finish(absl::Status status);

   private:
    friend class HostBufferStore;
    Upload(HostBufferStore& store, std::shared_ptr<Entry> entry) : store_(store), entry_(std::move(entry)) {}
    HostBufferStore& store_;
    std::shared_ptr<Entry> entry_;
  };
  // The store must outlive the upload.
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(uint64_t handle, int64_t size) EXCLUDES(mutex_);

  // ---- uploads, the session's side
  // `expected_bytes` is what the array needs; -1 if any size will do. The bytes of a buffer that is let go of before it
  // was consumed are dropped as they come.
  absl::StatusOr<std::shared_ptr<HostBuffer>> Take(uint64_t handle, int64_t expected_bytes) EXCLUDES(mutex_);
  // Uploads that were taken and aren't here in full.
  size_t awaited() const EXCLUDES(mutex_);
  // Runs `then` once fewer than `bound` are awaited, or at Close. One call at a time.
  void WhenFewerAwaited(size_t bound, absl::AnyInvocable<void()> then) EXCLUDES(mutex_);
  // For a request that failed: the buffer, there or to come, goes nowhere. Not of one that was taken.
  void Discard(uint64_t handle) EXCLUDES(mutex_);

  // ---- downloads
  struct Download {
    std::vector<HostBuffer::Chunk> chunks;
    DownloadRoom::Place place;  // of these bytes
  };
  // Where downloads have their place also before they are here.
  DownloadRoom& room() { return *room_; }
  absl::Status Put(uint64_t handle, std::vector<HostBuffer::Chunk> chunks) EXCLUDES(mutex_);
  absl::StatusOr<Download> Lookup(uint64_t handle) const EXCLUDES(mutex_);
  // Also forgets an upload that nobody took. Deleting twice does no harm.
  void Delete(uint64_t handle) EXCLUDES(mutex_);

  // Ends uploads and their consumers with `reason`; nothing is taken in any more.
  void Close(absl::Status reason) EXCLUDES(mutex_);

  struct Counts {
    int64_t waiting_bytes = 0;  // uploads that nobody has taken
    int64_t download_bytes = 0;
    size_t buffers = 0;
  };
  Counts counts() const EXCLUDES(mutex_);

 private:
  absl::Status CheckOpen() const REQUIRES(mutex_);
  void AddWaiting(Entry& entry, int64_t bytes) REQUIRES(mutex_);
  // Waiters that may run now; the caller runs them without the lock.
  std::vector<absl::AnyInvocable<void()>> TakeWaiters() REQUIRES(mutex_);

  const uint64_t key_;
  const int64_t waiting_bytes_max_;
  const std::shared_ptr<DownloadRoom> room_;
  mutable Mutex mutex_;
  absl::Status closed_ GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Entry>> uploads_ GUARDED_BY(mutex_);
  // Uploads that were begun and taken, and aren't finished: for Close.
  absl::flat_hash_map<uint64_t, std::weak_ptr<Entry>> flowing_ GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Download> downloads_ GUARDED_BY(mutex_);
  int64_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  int64_t download_bytes_ GUARDED_BY(mutex_) = 0;
  size_t awaited_ GUARDED_BY(mutex_) = 0;
  size_t awaited_bound_ GUARDED_BY(mutex_) = 0;  // of fewer_awaited_
  absl::AnyInvocable<void()> fewer_awaited_ GUARDED_BY(mutex_);
  absl::flat_hash_set<std::shared_ptr<Entry>> wait_for_room_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
