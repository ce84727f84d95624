#include "compiler/frame_io.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr uint64_t kFirstRoomBytes = 64 * 1024;

// Bytes read: less than `size` only at the end of the stream.
absl::StatusOr<size_t> ReadFully(int fd, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, data + done, size - done);
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR) continue;
      return absl::FailedPreconditionError(fmt::format("read: {}", std::strerror(errno)));
    }
    done += static_cast<size_t>(n);
  }
  return done;
}

absl::Status WriteFully(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      return absl::FailedPreconditionError(fmt::format("send: {}", std::strerror(errno)));
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace

std::string FrameHeader(uint64_t bytes) {
  std::string header(8, '\0');
  for (int i = 0; i < 8; ++i) header[i] = static_cast<char>(bytes >> (8 * i));
  return header;
}

uint64_t ParseFrameHeader(const char header[8]) {
  uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) bytes |= uint64_t{static_cast<uint8_t>(header[i])} << (8 * i);
  return bytes;
}

absl::Span<char> FrameReader::Room() {
  if (header_bytes_ < sizeof(header_)) return absl::MakeSpan(header_).subspan(header_bytes_);
  if (message_bytes_ == message_.size()) {
    message_.resize(std::min<uint64_t>(told_bytes_, std::max<uint64_t>(kFirstRoomBytes, 2 * message_bytes_)));
  }
  return absl::MakeSpan(message_).subspan(message_bytes_);
}

absl::Status FrameReader::Took(size_t bytes) {
  if (header_bytes_ == sizeof(header_)) {
    message_bytes_ += bytes;
    return absl::OkStatus();
  }
  header_bytes_ += bytes;
  if (header_bytes_ < sizeof(header_)) return absl::OkStatus();
  told_bytes_ = ParseFrameHeader(header_);
  if (told_bytes_ > kMaxFrameBytes) {
    return absl::FailedPreconditionError(fmt::format("a frame of {} bytes", told_bytes_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFrame(int fd) {
  char header[8];
  ASSIGN_OR_RETURN(const size_t got, ReadFully(fd, header, sizeof(header)));
  if (got == 0) return absl::OutOfRangeError("the other end closed the socket");
  if (got < sizeof(header)) return absl::FailedPreconditionError("the socket ended inside a frame");
  const uint64_t bytes = ParseFrameHeader(header);
  if (bytes > kMaxFrameBytes) return absl::FailedPreconditionError(fmt::format("a frame of {} bytes", bytes));
  std::string message(bytes, '\0');
  ASSIGN_OR_RETURN(const size_t body, ReadFully(fd, message.data(), bytes));
  if (body < bytes) return absl::FailedPreconditionError("the socket ended inside a frame");
  return message;
}

absl::Status WriteFrame(int fd, const std::string& message) {
  if (message.size() > kMaxFrameBytes) {
    return absl::FailedPreconditionError(fmt::format("a frame of {} bytes", message.size()));
  }
  const std::string header = FrameHeader(message.size());
  RETURN_IF_ERROR(WriteFully(fd, header.data(), header.size()));
  return WriteFully(fd, message.data(), message.size());
}

}  // namespace switchtower
