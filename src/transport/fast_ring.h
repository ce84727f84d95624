// One direction of messages between two processes of one host, without a system call where the reader is awake.
//
//   | produced | consumed | wanted | held | slot: header, size, bytes or place | slot | ... | arena |   (SharedMemory)
//
// What doesn't fit into a slot lies in a block of the arena (fast_blocks.h), which the reader may keep.
//
// The reader says in `wanted` which of its bells the writer shall ring when it publishes something; the writer rings
// once and takes the wish away. Whoever comes second of (publish, look at the wish) and (wish, look for messages) sees
// what the other one did, so no message that is wanted is left lying.
//
// Place:    transport, private; FastLane is the reader's other half.
// Threads:  any for the writer; one at a time for the reader. What Read handed over may be let go on any.
// Errors:   the reader trusts nothing that it reads, the writer trusts `consumed` only within what it has produced.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/unique_fd.h"
#include "transport/fabric.h"
#include "transport/fast_blocks.h"
#include "transport/shared_memory.h"

namespace switchtower {

// Whom a message wakes: nobody, the loop, or the thread that sleeps until its message comes.
enum class FastWish : uint32_t { kNobody = 0, kLoop = 1, kSleeper = 2 };
// Eventfds of the reader, by wish.
struct FastBells {
  UniqueFd loop;
  UniqueFd sleeper;
};

struct FastRingControl {
  alignas(64) std::atomic<uint64_t> produced;
  alignas(64) std::atomic<uint64_t> consumed;
  alignas(64) std::atomic<FastWish> wanted;
  alignas(64) HeldFlags held;
};

struct FastSlot {
  MessageHeader header;
  uint64_t size;    // above kFastSlotBytes the payload is in the arena
  uint64_t offset;  // there
  uint64_t block;
  char bytes[936];
};
static_assert(sizeof(FastSlot) == 1024);

inline constexpr size_t kFastSlotBytes = sizeof(FastSlot::bytes);
inline constexpr uint64_t kFastSlots = 256;
inline constexpr size_t kFastSlotsBegin = 4096;
inline constexpr size_t kFastArenaBegin = kFastSlotsBegin + kFastSlots * sizeof(FastSlot);
inline constexpr size_t kFastRingBytes = kFastArenaBegin + kFastArenaBytes;
static_assert(sizeof(FastRingControl) <= kFastSlotsBegin);
static_assert(Fabric::kFastBytesMax <= kFastArenaBytes / 4, "a few large messages fit at once");

void Ring(const UniqueFd& bell);

class FastRingWriter {
 public:
  static absl::StatusOr<std::unique_ptr<FastRingWriter>> Create(FastBells bells);

  // `write` puts the `bytes` in their place, on this thread. False, and nothing was sent, if there is no room or if
  // the message is too large.
  bool Send(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) EXCLUDES(mutex_);
  UniqueFd TakeFd() { return memory_.TakeFd(); }

 private:
  FastRingWriter(SharedMemory memory, FastBells bells);
  FastRingControl& control() { return *reinterpret_cast<FastRingControl*>(memory_.data()); }
  bool Publish(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) EXCLUDES(mutex_);
  bool PublishBlock(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) EXCLUDES(mutex_);
  // The slot for the next message; null if all are full.
  FastSlot* NextSlot() REQUIRES(mutex_);

  SharedMemory memory_;
  const FastBells bells_;
  Mutex mutex_;
  BlockArena arena_ GUARDED_BY(mutex_);
  uint64_t produced_ GUARDED_BY(mutex_) = 0;
  uint64_t consumed_ GUARDED_BY(mutex_) = 0;  // the last believable value
};

class FastRingReader {
 public:
  static absl::StatusOr<std::unique_ptr<FastRingReader>> Open(UniqueFd fd);

  void Want(FastWish wish) { control().wanted.store(wish); }
  bool empty() { return control().produced.load() == consumed_; }
  // Hands over all messages that are there. Small ones are views that end with the call, large ones have an owner that
  // keeps their place taken. InvalidArgument if the writer wrote nonsense.
  absl::Status Read(absl::FunctionRef<void(const MessageHeader&, ReceivedBytes)> deliver);

 private:
  explicit FastRingReader(SharedMemory memory) : memory_(std::make_shared<SharedMemory>(std::move(memory))) {}
  FastRingControl& control() { return *reinterpret_cast<FastRingControl*>(memory_->data()); }
  absl::StatusOr<ReceivedBytes> BytesOf(const FastSlot& slot);

  const std::shared_ptr<SharedMemory> memory_;
  uint64_t consumed_ = 0;
};

}  // namespace switchtower
