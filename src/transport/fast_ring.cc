#include "transport/fast_ring.h"

#include <errno.h>
#include <unistd.h>

#include <utility>

#include "base/status_macros.h"

namespace switchtower {
namespace {

FastSlot& SlotAt(SharedMemory& memory, uint64_t position) {
  return reinterpret_cast<FastSlot*>(memory.data() + kFastSlotsBegin)[position % kFastSlots];
}

}  // namespace

void Ring(const UniqueFd& bell) {
  const uint64_t one = 1;
  // A counter that is full (EAGAIN) rings already.
  while (::write(bell.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

FastRingWriter::FastRingWriter(SharedMemory memory, FastBells bells)
    : memory_(std::move(memory)), bells_(std::move(bells)), arena_(control().held) {}

absl::StatusOr<std::unique_ptr<FastRingWriter>> FastRingWriter::Create(FastBells bells) {
  ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create(kFastRingBytes));
  return std::unique_ptr<FastRingWriter>(new FastRingWriter(std::move(memory), std::move(bells)));
}

bool FastRingWriter::Send(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) {
  if (bytes > Fabric::kFastBytesMax) return false;
  if (!(bytes <= kFastSlotBytes ? Publish(header, bytes, write) : PublishBlock(header, bytes, write))) return false;
  std::atomic<FastWish>& wanted = control().wanted;
  const FastWish wish = wanted.load() == FastWish::kNobody ? FastWish::kNobody : wanted.exchange(FastWish::kNobody);
  if (wish == FastWish::kLoop) Ring(bells_.loop);
  if (wish == FastWish::kSleeper) Ring(bells_.sleeper);
  return true;
}

FastSlot* FastRingWriter::NextSlot() {
  if (produced_ - consumed_ >= kFastSlots) {
    const uint64_t told = control().consumed.load(std::memory_order_acquire);
    if (told >= consumed_ && told <= produced_) consumed_ = told;
  }
  return produced_ - consumed_ >= kFastSlots ? nullptr : &SlotAt(memory_, produced_);
}

bool FastRingWriter::Publish(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) {
  MutexLock lock(mutex_);
  FastSlot* const slot = NextSlot();
  if (slot == nullptr) return false;
  slot->header = header;
  slot->size = bytes;
  write(slot->bytes);
  control().produced.store(++produced_);
  return true;
}

bool FastRingWriter::PublishBlock(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) {
  std::optional<FastBlock> block;
  {
    MutexLock lock(mutex_);
    if (NextSlot() != nullptr) block = arena_.Take(bytes);
  }
  if (!block.has_value()) return false;
  write(memory_.data() + kFastArenaBegin + block->offset);
  MutexLock lock(mutex_);
  FastSlot* const slot = NextSlot();
  if (slot == nullptr) {  // others took the last ones
    control().held[block->id].store(0, std::memory_order_relaxed);
    return false;
  }
  slot->header = header;
  slot->size = bytes;
  slot->offset = block->offset;
  slot->block = block->id;
  control().produced.store(++produced_);
  return true;
}

absl::StatusOr<std::unique_ptr<FastRingReader>> FastRingReader::Open(UniqueFd fd) {
  ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Open(std::move(fd), kFastRingBytes));
  if (memory.size() != kFastRingBytes) return absl::InvalidArgumentError("the fast ring has another size");
  return std::unique_ptr<FastRingReader>(new FastRingReader(std::move(memory)));
}

absl::Status FastRingReader::Read(absl::FunctionRef<void(const MessageHeader&, ReceivedBytes)> deliver) {
  const uint64_t produced = control().produced.load();
  if (produced - consumed_ > kFastSlots) return absl::InvalidArgumentError("more messages than the fast ring holds");
  while (consumed_ != produced) {
    const FastSlot& slot = SlotAt(*memory_, consumed_);
    const MessageHeader header = slot.header;
    ASSIGN_OR_RETURN(ReceivedBytes bytes, BytesOf(slot));
    deliver(header, std::move(bytes));
    control().consumed.store(++consumed_, std::memory_order_release);
  }
  return absl::OkStatus();
}

// Reads each word of the slot once: what is checked must be what is used.
absl::StatusOr<ReceivedBytes> FastRingReader::BytesOf(const FastSlot& slot) {
  const auto once = [](const uint64_t& word) { return *const_cast<const volatile uint64_t*>(&word); };
  const uint64_t size = once(slot.size);
  if (size <= kFastSlotBytes) return ReceivedBytes(std::string_view(slot.bytes, size));
  const uint64_t offset = once(slot.offset), block = once(slot.block);
  if (size > Fabric::kFastBytesMax || offset > kFastArenaBytes - size || offset % 64 != 0 || block >= kFastBlocks) {
    return absl::InvalidArgumentError("a fast message of an impossible size or place");
  }
  char* const data = memory_->data() + kFastArenaBegin + offset;
  std::shared_ptr<char> owner(data, [memory = memory_, block](char*) {
    auto& control = *reinterpret_cast<FastRingControl*>(memory->data());
    control.held[block].store(0, std::memory_order_release);
  });
  return ReceivedBytes(std::move(owner), size);
}

}  // namespace switchtower
