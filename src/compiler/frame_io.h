// Frames on the socket between a proxy and a compiler process: 8 bytes of length, then the message.
//
// Place:    compiler; both ends use it.
// Threads:  one at a time for each socket and direction.
// Errors:   FrameEnd tells how a read ended without a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace switchtower {

// Protobuf can't parse more.
inline constexpr uint64_t kMaxFrameBytes = (uint64_t{1} << 31) - 1;

std::string FrameHeader(uint64_t bytes);
uint64_t ParseFrameHeader(const char header[8]);

// One frame as it comes, for the proxy's end, which believes nothing that the other one tells: memory grows with the
// bytes that came, not with the length that was told.
class FrameReader {
 public:
  // Where the next bytes go; not empty until the frame is complete.
  absl::Span<char> Room();
  // So many of them have come. FailedPrecondition: the frame is told to be larger than any.
  absl::Status Took(size_t bytes);
  bool complete() const { return header_bytes_ == sizeof(header_) && message_bytes_ == told_bytes_; }
  std::string Take() && { return std::move(message_); }

 private:
  char header_[8];
  size_t header_bytes_ = 0;
  uint64_t told_bytes_ = 0;
  std::string message_;  // as large as the room that was given
  size_t message_bytes_ = 0;
};

// Blocking, for the compiler's end. OutOfRange: the other end closed between frames.
absl::StatusOr<std::string> ReadFrame(int fd);
absl::Status WriteFrame(int fd, const std::string& message);

}  // namespace switchtower
