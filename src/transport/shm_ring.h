// One direction of shared memory between two processes: the writer puts payloads into a ring and tells
// their places over a socket; the reader says how far it is in a control page of the same memory.
//
//   | control page | ................ data (a power of two) ................ |
//                        consumed --^        produced --^   (both only grow)
//
// Place:    transport.
// Threads:  one thread at a time on each side.
// Errors:   the reader trusts no place that it is told; the writer trusts `consumed` only within what it
//           has produced.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/net/unique_fd.h"
#include "transport/shared_memory.h"
#include "transport/wire.h"

namespace switchtower {

struct RingControl {
  alignas(64) std::atomic<uint64_t> consumed;
  // The writer found no room and waits for a kRingFree.
  alignas(64) std::atomic<uint32_t> writer_waits;
};

// The mapping of both sides.
class RingMemory {
 public:
  explicit RingMemory(SharedMemory memory) : memory_(std::move(memory)) {}

  RingControl& control() { return *reinterpret_cast<RingControl*>(memory_.data()); }
  char* data() { return memory_.data() + kControlBytes; }
  size_t data_bytes() const { return memory_.size() - kControlBytes; }
  UniqueFd TakeFd() { return memory_.TakeFd(); }
  static constexpr size_t kControlBytes = 4096;

 private:
  SharedMemory memory_;
};

class RingWriter {
 public:
  // `bytes` is rounded up to a power of two of at least a page.
  static absl::StatusOr<std::unique_ptr<RingWriter>> Create(size_t bytes);

  struct Room {
    uint64_t position;
    char* memory;
    size_t bytes;
  };
  // Room for all of `bytes` in one piece, or nothing: then the reader has been asked to tell.
  std::optional<Room> ReserveWhole(size_t bytes) { return Reserve(bytes, bytes); }
  // Room for a part of `bytes`.
  std::optional<Room> ReserveSome(size_t bytes) { return Reserve(1, bytes); }
  void Commit(const Room& room, size_t bytes);

  size_t size() const { return memory_.data_bytes(); }
  // For the reader; once.
  UniqueFd TakeFd() { return memory_.TakeFd(); }

 private:
  explicit RingWriter(RingMemory memory) : memory_(std::move(memory)) {}
  std::optional<Room> Reserve(size_t bytes_min, size_t bytes_max);
  std::optional<Room> Find(size_t bytes_min, size_t bytes_max);

  RingMemory memory_;
  uint64_t produced_ = 0;
  uint64_t consumed_ = 0;  // the last believable value
};

class RingReader {
 public:
  static absl::StatusOr<std::unique_ptr<RingReader>> Open(UniqueFd fd);

  // The bytes at a place; they must be released before the next place is opened.
  absl::StatusOr<std::string_view> At(const transport_wire::RingPlace& place);
  // True if the writer waits to hear of it.
  bool Release(const transport_wire::RingPlace& place);

 private:
  explicit RingReader(RingMemory memory) : memory_(std::move(memory)) {}
  RingMemory memory_;
  uint64_t consumed_ = 0;
};

}  // namespace switchtower
