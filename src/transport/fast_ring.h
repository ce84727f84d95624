// One direction of small messages between two processes of one host, without a system call where the reader is awake.
//
//   | produced | consumed | wanted | slot: header, size, bytes | slot | ...      (SharedMemory)
//
// The reader says in `wanted` whether the writer shall ring its bell when it publishes something; the writer rings once
// and takes the wish away. Whoever comes second of (publish, look at the wish) and (wish, look for messages) sees what
// the other one did, so no message that is wanted is left lying.
//
// Place:    transport, private; FastLane is the reader's other half.
// Threads:  any for the writer; one at a time for the reader.
// Errors:   the reader trusts nothing that it reads, the writer trusts `consumed` only within what it has produced.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/unique_fd.h"
#include "transport/fabric.h"
#include "transport/shared_memory.h"

namespace switchtower {

struct FastRingControl {
  alignas(64) std::atomic<uint64_t> produced;
  alignas(64) std::atomic<uint64_t> consumed;
  alignas(64) std::atomic<uint32_t> wanted;
};

struct FastSlot {
  MessageHeader header;
  uint64_t size;
  char bytes[Fabric::kFastBytes];
};
static_assert(sizeof(FastSlot) == 1024);

inline constexpr uint64_t kFastSlots = 256;
inline constexpr size_t kFastRingBytes = 4096 + kFastSlots * sizeof(FastSlot);

class FastRingWriter {
 public:
  // `bell` is an eventfd of the reader.
  static absl::StatusOr<std::unique_ptr<FastRingWriter>> Create(UniqueFd bell);

  // False if the ring is full. `bytes` are at most Fabric::kFastBytes.
  bool Send(const MessageHeader& header, std::string_view bytes) EXCLUDES(mutex_);
  UniqueFd TakeFd() { return memory_.TakeFd(); }

 private:
  FastRingWriter(SharedMemory memory, UniqueFd bell);
  FastRingControl& control() { return *reinterpret_cast<FastRingControl*>(memory_.data()); }

  SharedMemory memory_;
  const UniqueFd bell_;
  Mutex mutex_;
  uint64_t produced_ GUARDED_BY(mutex_) = 0;
  uint64_t consumed_ GUARDED_BY(mutex_) = 0;  // the last believable value
};

class FastRingReader {
 public:
  static absl::StatusOr<std::unique_ptr<FastRingReader>> Open(UniqueFd fd);

  void Want(bool wanted) { control().wanted.store(wanted ? 1 : 0); }
  bool empty() { return control().produced.load() == consumed_; }
  // Hands over all messages that are there; the views end with the call. InvalidArgument if the writer wrote nonsense.
  absl::Status Read(absl::FunctionRef<void(const MessageHeader&, std::string_view)> deliver);

 private:
  explicit FastRingReader(SharedMemory memory) : memory_(std::move(memory)) {}
  FastRingControl& control() { return *reinterpret_cast<FastRingControl*>(memory_.data()); }

  SharedMemory memory_;
  uint64_t consumed_ = 0;
};

}  // namespace switchtower
