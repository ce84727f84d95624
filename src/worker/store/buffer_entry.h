// One shard of one array: pending, a value or an error with its first cause (S-7).
//
//   Promise (intake) -> pending --Fill--> buffer --(its event and its producer's outcome)--> ready
//                               --Fail--> error
//
// A buffer is filled in as soon as Execute returns: it is a future itself. If its program fails later, the plug-in's
// error has lost the code of the first cause; so the entry keeps the producer's outcome and that error wins.
//
// Place:    worker/store, over engine.
// Threads:  any, except the names, which belong to the intake. Callbacks run without a lock held, on the thread
//           that fills the entry or on one of the engine's.
// Lifetime: shared by the store and by all work that was given it.
// Invariants: B-1 an entry is filled once, later fills are ignored. B-2 a buffer is taken over (donated) only if the
//           entry has one name and no pin.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "worker/engine/engine.h"
#include "worker/store/outcome.h"

namespace switchtower {

// Shared by entries, which may outlive their store. Of one device, and counted into `whole` too if there is one.
struct StoreUsage {
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> peak_bytes{0};
  std::atomic<int64_t> entries{0};
  const std::shared_ptr<StoreUsage> whole;

  explicit StoreUsage(std::shared_ptr<StoreUsage> whole = nullptr) : whole(std::move(whole)) {}
  void Add(int64_t more_bytes, int64_t more_entries);
};

class BufferEntry {
 public:
  // What an entry holds at one moment; all null: pending.
  struct Content {
    absl::Status error;
    EngineBufferPtr buffer;
    std::shared_ptr<const std::string> bytes;  // string arrays live on the host
    std::shared_ptr<Outcome> producer;         // may be null: the buffer's own event tells all
    bool filled() const { return !error.ok() || buffer != nullptr || bytes != nullptr; }
  };

  explicit BufferEntry(std::shared_ptr<StoreUsage> usage);
  ~BufferEntry();
  BufferEntry(const BufferEntry&) = delete;
  BufferEntry& operator=(const BufferEntry&) = delete;

  void Fill(EngineBufferPtr buffer, std::shared_ptr<Outcome> producer) EXCLUDES(mutex_);
  void FillBytes(std::shared_ptr<const std::string> bytes) EXCLUDES(mutex_);
  void Fail(absl::Status cause) EXCLUDES(mutex_);

  bool filled() const EXCLUDES(mutex_);
  Content content() const EXCLUDES(mutex_);
  // The entry is no longer pending.
  void OnFilled(absl::AnyInvocable<void()> callback) EXCLUDES(mutex_);
  // The value was computed, or an error: the first cause.
  void OnReady(StatusCallback callback) EXCLUDES(mutex_);

  // A launch takes the buffer over; false if somebody still reads it.
  bool TryTake() EXCLUDES(mutex_);

  // Intake thread: how many (array, device) names lead here.
  int names = 0;
  // Intake thread, while it takes in one launch: how often the launch names it.
  int uses = 0;
  // Intake thread: filled by a task that runs aside (RankTask::aside).
  bool from_aside = false;

 private:
  friend class EntryPin;
  void FillWith(Content content) EXCLUDES(mutex_);
  void Account(int64_t bytes) REQUIRES(mutex_);

  const std::shared_ptr<StoreUsage> usage_;
  mutable Mutex mutex_;
  Content content_ GUARDED_BY(mutex_);
  int pins_ GUARDED_BY(mutex_) = 0;
  bool taken_ GUARDED_BY(mutex_) = false;
  int64_t accounted_bytes_ GUARDED_BY(mutex_) = 0;
  absl::InlinedVector<absl::AnyInvocable<void()>, 1> waiting_ GUARDED_BY(mutex_);
};
using BufferEntryPtr = std::shared_ptr<BufferEntry>;

// Keeps an entry's buffer from being donated while it is read. Made on the intake, in command order, so that a
// donation sent later sees it.
class EntryPin {
 public:
  EntryPin() = default;
  explicit EntryPin(BufferEntryPtr entry);
  ~EntryPin();
  EntryPin(EntryPin&& other) noexcept = default;
  EntryPin& operator=(EntryPin&& other) noexcept;
  const BufferEntryPtr& entry() const { return entry_; }

 private:
  void Release();
  BufferEntryPtr entry_;
};

}  // namespace switchtower
