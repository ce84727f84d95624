// Memory that two processes share: an anonymous file whose descriptor goes over a unix socket. It has no name, and
// nothing is left behind when both are gone, however they went.
//
// Place:    transport, private.
// Errors:   RESOURCE_EXHAUSTED where the system gives none; INVALID_ARGUMENT for a peer's descriptor that isn't a
//           sealed anonymous file: it could shrink under the reader.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "base/net/unique_fd.h"

namespace switchtower {

class SharedMemory {
 public:
  static absl::StatusOr<SharedMemory> Create(size_t bytes);
  // A peer's. What is in it may change at any time and mean nothing.
  static absl::StatusOr<SharedMemory> Open(UniqueFd fd, size_t bytes_max);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  char* data() { return base_; }
  size_t size() const { return size_; }
  // Of one's own, for the peer; once.
  UniqueFd TakeFd() { return std::move(fd_); }

 private:
  SharedMemory(UniqueFd fd, char* base, size_t size) : fd_(std::move(fd)), base_(base), size_(size) {}
  static absl::StatusOr<SharedMemory> Map(UniqueFd fd, size_t size);

  UniqueFd fd_;
  char* base_;
  size_t size_;
};

}  // namespace switchtower
