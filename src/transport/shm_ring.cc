#include "transport/shm_ring.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/status_macros.h"

namespace switchtower {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");
constexpr size_t kRingBytesMax = size_t{1} << 30;
// Payloads begin where a device or a vector unit likes them to.
constexpr uint64_t kAlignment = 64;

uint64_t AlignUp(uint64_t position) { return (position + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

absl::StatusOr<std::unique_ptr<RingWriter>> RingWriter::Create(size_t bytes) {
  bytes = std::clamp(std::bit_ceil(bytes), size_t{4096}, kRingBytesMax);
  ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create(RingMemory::kControlBytes + bytes));
  return std::unique_ptr<RingWriter>(new RingWriter(RingMemory(std::move(memory))));
}

std::optional<RingWriter::Room> RingWriter::Reserve(size_t bytes_min, size_t bytes_max) {
  if (auto room = Find(bytes_min, bytes_max)) return room;
  // First ask, then look again: whichever side comes second sees what the other one did.
  memory_.control().writer_waits.store(1);
  auto room = Find(bytes_min, bytes_max);
  if (room.has_value()) memory_.control().writer_waits.store(0);
  return room;
}

std::optional<RingWriter::Room> RingWriter::Find(size_t bytes_min, size_t bytes_max) {
  const uint64_t told = memory_.control().consumed.load();
  if (told >= consumed_ && told <= produced_) consumed_ = told;
  uint64_t position = AlignUp(produced_);
  uint64_t to_end = size() - position % size();
  if (to_end < bytes_min) {
    position += to_end;
    to_end = size();
  }
  if (position - consumed_ >= size()) return std::nullopt;
  const uint64_t bytes = std::min({size() - (position - consumed_), to_end, uint64_t{bytes_max}});
  if (bytes < bytes_min) return std::nullopt;
  return Room{position, memory_.data() + position % size(), bytes};
}

void RingWriter::Commit(const Room& room, size_t bytes) { produced_ = room.position + bytes; }

absl::StatusOr<std::unique_ptr<RingReader>> RingReader::Open(UniqueFd fd) {
  ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Open(std::move(fd), RingMemory::kControlBytes + kRingBytesMax));
  if (memory.size() <= RingMemory::kControlBytes || !std::has_single_bit(memory.size() - RingMemory::kControlBytes)) {
    return absl::InvalidArgumentError("the ring has an impossible size");
  }
  return std::unique_ptr<RingReader>(new RingReader(RingMemory(std::move(memory))));
}

absl::StatusOr<std::string_view> RingReader::At(const transport_wire::RingPlace& place) {
  const uint64_t size = memory_.data_bytes();
  const uint64_t offset = place.position % size;
  if (place.position % kAlignment != 0 || place.position < consumed_ || place.position - consumed_ >= size ||
      place.length > size - offset || place.length > size - (place.position - consumed_)) {
    return absl::InvalidArgumentError("a place outside of the ring");
  }
  return std::string_view(memory_.data() + offset, place.length);
}

bool RingReader::Release(const transport_wire::RingPlace& place) {
  consumed_ = place.position + place.length;
  memory_.control().consumed.store(consumed_);
  return memory_.control().writer_waits.exchange(0) != 0;
}

}  // namespace switchtower
