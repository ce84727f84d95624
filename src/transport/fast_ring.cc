#include "transport/fast_ring.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

FastSlot& SlotAt(SharedMemory& memory, uint64_t position) {
  return reinterpret_cast<FastSlot*>(memory.data() + 4096)[position % kFastSlots];
}

void Ring(const UniqueFd& bell) {
  const uint64_t one = 1;
  // A counter that is full (EAGAIN) rings already.
  while (::write(bell.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace

FastRingWriter::FastRingWriter(SharedMemory memory, UniqueFd bell)
    : memory_(std::move(memory)), bell_(std::move(bell)) {}

absl::StatusOr<std::unique_ptr<FastRingWriter>> FastRingWriter::Create(UniqueFd bell) {
  ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create(kFastRingBytes));
  return std::unique_ptr<FastRingWriter>(new FastRingWriter(std::move(memory), std::move(bell)));
}

bool FastRingWriter::Send(const MessageHeader& header, std::string_view bytes) {
  CHECK(bytes.size() <= Fabric::kFastBytes);
  {
    MutexLock lock(mutex_);
    if (produced_ - consumed_ >= kFastSlots) {
      const uint64_t told = control().consumed.load(std::memory_order_acquire);
      if (told < consumed_ || told > produced_) return false;
      consumed_ = told;
      if (produced_ - consumed_ >= kFastSlots) return false;
    }
    FastSlot& slot = SlotAt(memory_, produced_);
    slot.header = header;
    slot.size = bytes.size();
    ::memcpy(slot.bytes, bytes.data(), bytes.size());
    control().produced.store(++produced_);
  }
  if (control().wanted.load() != 0 && control().wanted.exchange(0) != 0) Ring(bell_);
  return true;
}

absl::StatusOr<std::unique_ptr<FastRingReader>> FastRingReader::Open(UniqueFd fd) {
  ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Open(std::move(fd), kFastRingBytes));
  if (memory.size() != kFastRingBytes) return absl::InvalidArgumentError("the fast ring has another size");
  return std::unique_ptr<FastRingReader>(new FastRingReader(std::move(memory)));
}

absl::Status FastRingReader::Read(absl::FunctionRef<void(const MessageHeader&, std::string_view)> deliver) {
  const uint64_t produced = control().produced.load();
  if (produced - consumed_ > kFastSlots) return absl::InvalidArgumentError("more messages than the fast ring holds");
  while (consumed_ != produced) {
    const FastSlot& slot = SlotAt(memory_, consumed_);
    const MessageHeader header = slot.header;
    const uint64_t size = slot.size;
    if (size > Fabric::kFastBytes) return absl::InvalidArgumentError("a fast message of an impossible size");
    deliver(header, std::string_view(slot.bytes, size));
    control().consumed.store(++consumed_, std::memory_order_release);
  }
  return absl::OkStatus();
}

}  // namespace switchtower
