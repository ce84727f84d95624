// Frames on the socket between a proxy and a compiler process: 8 bytes of length, then the message.
//
// Place:    compiler; both ends use it.
// Threads:  one at a time for each socket and direction.
// Errors:   FrameEnd tells how a read ended without a frame.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace switchtower {

// Protobuf can't parse more.
inline constexpr uint64_t kMaxFrameBytes = (uint64_t{1} << 31) - 1;

std::string FrameHeader(uint64_t bytes);
uint64_t ParseFrameHeader(const char header[8]);

// Blocking, for the compiler's end. OutOfRange: the other end closed between frames.
absl::StatusOr<std::string> ReadFrame(int fd);
absl::Status WriteFrame(int fd, const std::string& message);

}  // namespace switchtower
