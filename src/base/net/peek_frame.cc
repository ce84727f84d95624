#include "base/net/peek_frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "base/net/frame_header.h"
#include "base/net/framed_connection.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::Status Failed(const char* what) {
  return absl::UnavailableError(fmt::format("the connection broke: {}: {}", what, strerror(errno)));
}

// What is there of the first `wanted` bytes.
absl::StatusOr<std::string> Peek(int socket, size_t wanted) {
  std::string bytes(wanted, '\0');
  ssize_t n;
  do {
    n = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return Failed("recv");
  bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return bytes;
}

absl::Status WakeWith(int socket, size_t bytes) {
  const int low_water = static_cast<int>(bytes);
  if (::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof(low_water)) != 0) return Failed("setsockopt");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<PeekedFrame>> PeekFrame(int socket, size_t body_bytes_max) {
  FrameHeader header;
  ASSIGN_OR_RETURN(std::string bytes, Peek(socket, sizeof(header)));
  if (bytes.size() < sizeof(header)) {
    RETURN_IF_ERROR(WakeWith(socket, sizeof(header)));
    return std::nullopt;
  }
  memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != FrameHeader::kMagic) return absl::InvalidArgumentError("no frame begins here");
  if (header.body_bytes > body_bytes_max) {
    return absl::InvalidArgumentError(
        fmt::format("a frame of {} bytes, {} at most are allowed here", header.body_bytes, body_bytes_max));
  }
  const size_t whole = sizeof(header) + header.body_bytes;
  ASSIGN_OR_RETURN(bytes, Peek(socket, whole));
  if (bytes.size() < whole) {
    RETURN_IF_ERROR(WakeWith(socket, whole));
    return std::nullopt;
  }
  RETURN_IF_ERROR(WakeWith(socket, 1));
  return PeekedFrame{header.tagged_type & FramedConnection::kTypeMax, bytes.substr(sizeof(header))};
}

}  // namespace switchtower
