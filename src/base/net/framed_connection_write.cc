// The sending half: a queue of segments, written in batches by one thread at a time.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/net/frame_header.h"
#include "base/net/framed_connection.h"

namespace switchtower {
namespace {
// Below this a copy is cheaper than an entry in the list of pieces and its owner's count.
constexpr size_t kCopyBytes = 4096;
constexpr size_t kCopiedSegmentBytes = 64 * 1024;
constexpr size_t kPiecesPerWrite = 64;
// System calls before a writer gives way: a caller's thread to the loop, the loop to other descriptors.
constexpr int kWritesPerTurn = 16;
}  // namespace

absl::Status FramedConnection::Send(uint32_t type, Payload body) { return Send(type, std::move(body), SendOptions{}); }

absl::Status FramedConnection::Send(uint32_t type, Payload body, SendOptions&& options) {
  const When when = options.when;
  CHECK(type <= kTypeMax && options.fds.size() <= kFdsMax);
  {
    MutexLock lock(mutex_);
    if (is_closed() || close_when_written_) {
      return absl::FailedPreconditionError("the connection is closed");
    }
    if (queued_bytes() >= options_.queue_bytes_max) {
      refused_ = true;
      return absl::ResourceExhaustedError(
          fmt::format("the connection's queue holds {} bytes that the peer has not taken", queued_bytes()));
    }
    Enqueue(type, std::move(body), options);
  }
  if (when == When::kNow) {
    Flush();
  } else if (when == When::kSoon) {
    FlushOnLoop();
  }
  return absl::OkStatus();
}

void FramedConnection::Enqueue(uint32_t type, Payload body, SendOptions& options) {
  FrameHeader header;
  header.tagged_type = type | static_cast<uint32_t>(options.fds.size()) << 24;
  header.body_bytes = body.size();
  if (!options.fds.empty()) {
    queue_.emplace_back();
    queue_.back().fds = std::move(options.fds);
    queue_.back().copied.assign(reinterpret_cast<const char*>(&header), sizeof(header));
  } else {
    Append({reinterpret_cast<const char*>(&header), sizeof(header)});
  }
  const size_t body_bytes = body.size();
  for (Payload::Piece& piece : std::move(body).TakePieces()) {
    if (piece.owner == nullptr || piece.bytes.size() <= kCopyBytes) {
      Append(piece.bytes);
    } else {
      queue_.emplace_back();
      queue_.back().piece = std::move(piece);
    }
  }
  if (options.on_written != nullptr) {
    queue_.back().on_written.push_back(std::move(options.on_written));
  }
  queued_bytes_.fetch_add(sizeof(header) + body_bytes, std::memory_order_relaxed);
}

void FramedConnection::Append(std::string_view bytes) {
  if (queue_.empty() || queue_.back().copied.empty() || queue_.back().copied.size() >= kCopiedSegmentBytes) {
    queue_.emplace_back();
  }
  queue_.back().copied.append(bytes);
}

void FramedConnection::Flush() {
  if (loop_.OnLoopThread()) {
    FlushOnLoop();
  } else {
    WriteInline();
  }
}

void FramedConnection::WriteInline() {
  if (BeginWriting()) WriteUntilDone();
}

void FramedConnection::FlushOnLoop() {
  {
    MutexLock lock(mutex_);
    if (flush_posted_ || write_state_ != WriteState::kIdle) return;
    flush_posted_ = true;
  }
  loop_.Post([self = shared_from_this()] {
    {
      MutexLock lock(self->mutex_);
      self->flush_posted_ = false;
    }
    if (self->BeginWriting()) self->WriteUntilDone();
  });
}

bool FramedConnection::BeginWriting() {
  MutexLock lock(mutex_);
  if (is_closed() || write_state_ != WriteState::kIdle || queue_.empty()) return false;
  write_state_ = WriteState::kWriting;
  return true;
}

void FramedConnection::WriteUntilDone() {
  for (int writes = 0; writes < kWritesPerTurn; ++writes) {
    if (writing_.empty() && !TakeQueue()) return;
    const ssize_t n = WriteSome();
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return StopBlocked();
    if (n < 0) return WriteFailed(errno);
    ConsumeWritten(n);
  }
  // Still the writer, on the loop from here.
  loop_.Post([self = shared_from_this()] { self->WriteUntilDone(); });
}

// False if there is nothing left, and this thread no longer the writer.
bool FramedConnection::TakeQueue() {
  bool finish = false, close = false;
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (!queue_.empty() && !is_closed()) {
      writing_.swap(queue_);
      return true;
    }
    write_state_ = WriteState::kIdle;
    finish = is_closed();
    close = close_when_written_;
    why = close_status_;
  }
  if (finish) {
    loop_.Post([self = shared_from_this()] { self->FinishClose(); });
  } else if (close) {
    Close(std::move(why));
  }
  return false;
}

// The socket takes no more: the loop goes on when it does.
void FramedConnection::StopBlocked() {
  bool finish = false;
  {
    MutexLock lock(mutex_);
    write_state_ = WriteState::kBlocked;
    finish = is_closed();
    if (!finish && registered_) loop_.Modify(registration_, EPOLLIN | EPOLLOUT);
  }
  if (finish) loop_.Post([self = shared_from_this()] { self->FinishClose(); });
}

ssize_t FramedConnection::WriteSome() {
  std::array<iovec, kPiecesPerWrite> pieces;
  size_t count = 0;
  size_t skip = written_of_first_;
  for (const Segment& segment : writing_) {
    // Descriptors travel with the first byte of a system call.
    if (count == pieces.size() || (count > 0 && !segment.fds.empty())) break;
    const std::string_view bytes = segment.bytes().substr(skip);
    pieces[count++] = iovec{const_cast<char*>(bytes.data()), bytes.size()};
    skip = 0;
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))];
  const std::vector<UniqueFd>& fds = writing_.front().fds;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    memset(control, 0, sizeof(control));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    for (size_t i = 0; i < fds.size(); ++i) {
      const int fd = fds[i].get();
      memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(int));
    }
  }
  ssize_t n;
  do {
    n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n;
}

void FramedConnection::ConsumeWritten(size_t bytes) {
  std::vector<OnWritten> written;
  if (bytes > 0) writing_.front().fds.clear();
  size_t left = bytes;
  while (!writing_.empty()) {
    Segment& first = writing_.front();
    const size_t unwritten = first.bytes().size() - written_of_first_;
    if (left < unwritten) break;
    left -= unwritten;
    written_of_first_ = 0;
    for (OnWritten& on_written : first.on_written) written.push_back(std::move(on_written));
    writing_.pop_front();
  }
  written_of_first_ += left;
  const size_t queued = queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed) - bytes;

  bool post = false, drained = false;
  {
    MutexLock lock(mutex_);
    if (!written.empty()) {
      std::move(written.begin(), written.end(), std::back_inserter(written_));
      post = !std::exchange(written_posted_, true);
    }
    if (refused_ && queued < options_.queue_bytes_max / 2 + 1) {
      refused_ = false;
      drained = true;
    }
  }
  if (post) loop_.Post([self = shared_from_this()] { self->RunWritten(); });
  if (drained) {
    loop_.Post([self = shared_from_this()] {
      if (self->handler_ != nullptr) self->handler_->OnQueueDrained();
    });
  }
}

void FramedConnection::RunWritten() {
  std::vector<OnWritten> written;
  {
    MutexLock lock(mutex_);
    written.swap(written_);
    written_posted_ = false;
  }
  for (OnWritten& on_written : written) on_written(absl::OkStatus());
}

void FramedConnection::WriteFailed(int error) {
  // Nobody writes again; what the peer said before it went (perhaps why) is read first.
  bool finish = false;
  {
    MutexLock lock(mutex_);
    write_state_ = WriteState::kBlocked;
    finish = is_closed();
  }
  auto why = absl::UnavailableError(fmt::format("can't write to the peer: {}", strerror(error)));
  loop_.Post([self = shared_from_this(), finish, why = std::move(why)] {
    if (finish) return self->FinishClose();
    if (self->handler_ == nullptr) return;
    self->Read();
    self->Close(why);
  });
}

}  // namespace switchtower
