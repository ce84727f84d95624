#include "transport/shm_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");
constexpr size_t kRingBytesMax = size_t{1} << 30;
// Payloads begin where a device or a vector unit likes them to.
constexpr uint64_t kAlignment = 64;

uint64_t AlignUp(uint64_t position) { return (position + kAlignment - 1) & ~(kAlignment - 1); }

absl::Status SystemError(std::string_view what) {
  return absl::ResourceExhaustedError(fmt::format("{}: {}", what, strerror(errno)));
}

}  // namespace

absl::StatusOr<RingMemory> RingMemory::Map(int fd, size_t data_bytes) {
  void* base = ::mmap(nullptr, kControlBytes + data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return SystemError("can't map shared memory");
  return RingMemory(static_cast<char*>(base), data_bytes);
}

RingMemory::RingMemory(RingMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), data_bytes_(other.data_bytes_) {}

RingMemory::~RingMemory() {
  if (base_ != nullptr) ::munmap(base_, kControlBytes + data_bytes_);
}

absl::StatusOr<std::unique_ptr<RingWriter>> RingWriter::Create(size_t bytes) {
  bytes = std::clamp(std::bit_ceil(bytes), size_t{4096}, kRingBytesMax);
  UniqueFd fd(::memfd_create("switchtower-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemError("can't create shared memory");
  if (::ftruncate(fd.get(), RingMemory::kControlBytes + bytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("can't size shared memory");
  }
  ASSIGN_OR_RETURN(RingMemory memory, RingMemory::Map(fd.get(), bytes));
  return std::unique_ptr<RingWriter>(new RingWriter(std::move(fd), std::move(memory)));
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
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError("the ring is not a file");
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("the ring is not sealed");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  const uint64_t data_bytes = size - RingMemory::kControlBytes;
  if (size <= RingMemory::kControlBytes || data_bytes > kRingBytesMax || !std::has_single_bit(data_bytes)) {
    return absl::InvalidArgumentError("the ring has an impossible size");
  }
  ASSIGN_OR_RETURN(RingMemory memory, RingMemory::Map(fd.get(), data_bytes));
  return std::unique_ptr<RingReader>(new RingReader(std::move(memory)));
}

absl::StatusOr<std::string_view> RingReader::At(const transport_wire::RingPlace& place) {
  const uint64_t size = memory_.data_bytes();
  const uint64_t offset = place.position % size;
  if (place.position < consumed_ || place.position - consumed_ >= size || place.length > size - offset ||
      place.length > size - (place.position - consumed_)) {
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
