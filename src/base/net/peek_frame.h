// The first frame of a socket, looked at without taking it: for who must decide by its content who gets the socket.
//
// Place:   base/net; what a FramedConnection reads afterwards begins with that same frame.
// Threads: any; doesn't block.
// Errors:  InvalidArgument if no frame begins there or it is too large, Unavailable if the socket has failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace switchtower {

struct PeekedFrame {
  uint32_t type = 0;
  std::string body;
};

// Nothing if the frame isn't there in whole yet. The socket is readable for a poller (by its low-water mark) only when
// more has come than was there, or its peer has ended.
absl::StatusOr<std::optional<PeekedFrame>> PeekFrame(int socket, size_t body_bytes_max);

}  // namespace switchtower
