#include "transport/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::Status SystemError(std::string_view what) {
  return absl::ResourceExhaustedError(fmt::format("{}: {}", what, strerror(errno)));
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Map(UniqueFd fd, size_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return SystemError("can't map shared memory");
  return SharedMemory(std::move(fd), static_cast<char*>(base), size);
}

absl::StatusOr<SharedMemory> SharedMemory::Create(size_t bytes) {
  UniqueFd fd(::memfd_create("switchtower-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemError("can't create shared memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("can't size shared memory");
  }
  return Map(std::move(fd), bytes);
}

absl::StatusOr<SharedMemory> SharedMemory::Open(UniqueFd fd, size_t bytes_max) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError("the shared memory is not a file");
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("the shared memory is not sealed");
  }
  if (info.st_size <= 0 || static_cast<uint64_t>(info.st_size) > bytes_max) {
    return absl::InvalidArgumentError("the shared memory has an impossible size");
  }
  ASSIGN_OR_RETURN(SharedMemory memory, Map(std::move(fd), static_cast<size_t>(info.st_size)));
  memory.fd_.reset();  // the mapping is enough
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)), size_(other.size_) {}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

}  // namespace switchtower
