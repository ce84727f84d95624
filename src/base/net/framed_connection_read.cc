// The receiving half: one system call fills the loop's scratch (and first the large body that is under
// way); whole frames are handed on as views.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/net/frame_header.h"
#include "base/net/framed_connection.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {
// Then other descriptors have their turn; epoll comes back for the rest.
constexpr int kReadsPerTurn = 8;
constexpr size_t kUnclaimedFdsMax = 64;

absl::Status Nonsense(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("the peer sent nonsense: {}", what));
}
}  // namespace

void FramedConnection::Read() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    if (is_closed()) return;
    auto more = ReadOnce();
    if (!more.ok()) return Close(more.status());
    if (!*more) return;
  }
}

// True if there may be more to read.
absl::StatusOr<bool> FramedConnection::ReadOnce() {
  // What is left of the last read stands in front of what comes now, so that frames are contiguous.
  char* const scratch = loop_.scratch();
  const size_t before = partial_.size();
  memcpy(scratch, partial_.data(), before);
  const size_t wanted = large_.memory != nullptr ? large_.size - large_.have : 0;
  ASSIGN_OR_RETURN(const size_t n, Receive(scratch + before, EventLoop::kScratchBytes - before));
  if (n == 0) return false;
  size_t rest = n;
  if (wanted > 0) {
    const size_t part = std::min(n, wanted);
    large_.have += part;
    rest -= part;
    if (large_.have == large_.size) {
      LargeBody done = std::exchange(large_, {});
      RETURN_IF_ERROR(Deliver(done.tagged_type, ReceivedBytes(std::move(done.memory), done.size)));
    }
  }
  partial_.clear();
  RETURN_IF_ERROR(Parse({scratch, before + rest}));
  return n == wanted + EventLoop::kScratchBytes - before;
}

// 0 if nothing is there now; the end of the stream is an error.
absl::StatusOr<size_t> FramedConnection::Receive(char* to, size_t size) {
  iovec pieces[2];
  msghdr message{};
  message.msg_iov = pieces;
  if (large_.memory != nullptr) {
    pieces[message.msg_iovlen++] = iovec{large_.memory.get() + large_.have, large_.size - large_.have};
  }
  pieces[message.msg_iovlen++] = iovec{to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n;
  do {
    n = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return absl::UnavailableError(fmt::format("the connection broke: {}", strerror(errno)));
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received_fds_.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) || received_fds_.size() > kUnclaimedFdsMax) {
    return Nonsense("too many descriptors");
  }
  if (n == 0) {
    const bool torn = large_.memory != nullptr || !partial_.empty();
    return absl::UnavailableError(torn ? "the peer closed the connection in the middle of a frame"
                                       : "the peer closed the connection");
  }
  return static_cast<size_t>(n);
}

absl::Status FramedConnection::Parse(std::string_view bytes) {
  while (!bytes.empty() && !is_closed()) {
    FrameHeader header;
    if (bytes.size() < sizeof(header)) break;
    memcpy(&header, bytes.data(), sizeof(header));
    if (header.magic != FrameHeader::kMagic) return Nonsense("no frame begins here");
    if (header.body_bytes > options_.body_bytes_max) {
      return Nonsense(
          fmt::format("a frame of {} bytes, {} at most are allowed here", header.body_bytes, options_.body_bytes_max));
    }
    const std::string_view after = bytes.substr(sizeof(header));
    if (header.body_bytes <= kLargeBodyBytes) {
      if (after.size() < header.body_bytes) break;
      RETURN_IF_ERROR(Deliver(header.tagged_type, ReceivedBytes(after.substr(0, header.body_bytes))));
      bytes = after.substr(header.body_bytes);
      continue;
    }
    std::shared_ptr<char> memory = handler_->AllocateBody(header.tagged_type & kTypeMax, header.body_bytes);
    if (memory == nullptr) return Nonsense("a body that is not expected");
    const size_t part = std::min<size_t>(after.size(), header.body_bytes);
    memcpy(memory.get(), after.data(), part);
    bytes = after.substr(part);
    if (part == header.body_bytes) {
      RETURN_IF_ERROR(Deliver(header.tagged_type, ReceivedBytes(std::move(memory), part)));
    } else {
      large_ = LargeBody{header.tagged_type, std::move(memory), header.body_bytes, part};
    }
  }
  partial_.assign(bytes);
  return absl::OkStatus();
}

absl::Status FramedConnection::Deliver(uint32_t tagged_type, ReceivedBytes body) {
  if (is_closed()) return absl::OkStatus();
  Frame frame;
  frame.type = tagged_type & kTypeMax;
  frame.body = std::move(body);
  const size_t fds = tagged_type >> 24;
  if (fds > received_fds_.size()) return Nonsense("a descriptor is missing");
  if (fds > 0) {
    auto end = received_fds_.begin() + fds;
    std::move(received_fds_.begin(), end, std::back_inserter(frame.fds));
    received_fds_.erase(received_fds_.begin(), end);
  }
  handler_->OnFrame(std::move(frame));
  return absl::OkStatus();
}

}  // namespace switchtower
