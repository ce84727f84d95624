// A stream socket that carries frames: {u32 magic, u32 type and descriptor count, u64 body length}, body.
//
//   Send --> queue (small bodies copied together, large ones by reference) --> one sendmsg for a batch
//   recvmsg --> loop's scratch --> OnFrame with a view;  a large body --> straight into its own memory
//
// Place:    base/net; the command channel and the data plane are protocols of frames on this.
// Threads:  Send, Flush, Close, queued_bytes from any thread; frames sent by one thread keep their order.
//           Handler and on_written callbacks run on the loop's thread, never inside a call to Send.
// Lifetime: shared; the loop keeps an open connection alive and it keeps its handler until OnClosed has
//           returned. Owners close connections before they stop the loop.
// Errors:   what the peer does wrong ends this connection alone. Send fails with FailedPrecondition once
//           closed, ResourceExhausted when the queue is full.
// Invariants: F-1 OnClosed comes exactly once and last. F-2 each on_written comes exactly once, with an
//           error if the frame may not have left. F-3 a full queue refuses, it never drops or blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/net/event_loop.h"
#include "base/net/payload.h"
#include "base/net/unique_fd.h"

namespace switchtower {

struct Frame {
  uint32_t type = 0;
  ReceivedBytes body;
  std::vector<UniqueFd> fds;  // descriptors that came with it (unix sockets only)
};

class FramedConnection : public std::enable_shared_from_this<FramedConnection>, private EventLoop::FdHandler {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnFrame(Frame frame) = 0;
    // Ok if this side asked for the end; else why it ended ("closed by the peer", ...).
    virtual void OnClosed(absl::Status why) = 0;
    // After a Send was refused by a full queue: the queue is half empty again.
    virtual void OnQueueDrained() {}
    // Memory for a large body that is about to be read; null refuses it and closes the connection.
    virtual std::shared_ptr<char> AllocateBody(uint32_t type, size_t size) { return AllocateBytes(size); }
  };

  struct Options {
    uint64_t body_bytes_max = uint64_t{1} << 32;
    // A frame is taken while the queue holds less than this, whatever the frame's own size.
    size_t queue_bytes_max = size_t{256} << 20;
  };

  enum class When {
    kNow,    // the calling thread writes unless somebody else is writing; on the loop's thread, at the
             // end of the turn, together with whatever else the turn sends
    kSoon,   // the loop's thread writes: for a sender of bursts that has better things to do
    kFlush,  // at the next Flush(): for a sender that knows the end of its burst
  };
  using OnWritten = absl::AnyInvocable<void(absl::Status)>;
  struct SendOptions {
    When when = When::kNow;
    OnWritten on_written;  // the bytes were handed to the kernel and their owners let go
    std::vector<UniqueFd> fds;
  };

  static constexpr uint32_t kTypeMax = (1u << 24) - 1;
  static constexpr size_t kFdsMax = 8;
  // Larger bodies get memory of their own (Handler::AllocateBody); smaller ones are views.
  static constexpr size_t kLargeBodyBytes = 16 * 1024;

  // Takes a connected, nonblocking stream socket. Frames can be sent at once; reading begins when the
  // loop comes to it.
  static std::shared_ptr<FramedConnection> Create(EventLoop& loop, UniqueFd socket, Options options,
                                                  std::shared_ptr<Handler> handler);
  ~FramedConnection() override;

  // On failure nothing was queued and `options` is as it was.
  absl::Status Send(uint32_t type, Payload body, SendOptions&& options);
  absl::Status Send(uint32_t type, Payload body);
  void Flush();
  // As Flush off the loop's thread, also on it: for a sender that goes on computing in this turn.
  void WriteInline();
  // OnClosed(why) follows on the loop's thread; frames not yet written are lost.
  void Close(absl::Status why = absl::OkStatus());
  // Closes once everything queued so far is written.
  void CloseWhenWritten(absl::Status why = absl::OkStatus());

  size_t queued_bytes() const { return queued_bytes_.load(std::memory_order_relaxed); }
  bool is_closed() const { return closed_.load(std::memory_order_acquire); }
  // Loop's thread: the limit for frames whose header was not read yet (small until a peer is known).
  void set_body_bytes_max(uint64_t bytes) { options_.body_bytes_max = bytes; }

 private:
  // A run of copied bytes or one piece by reference; an on_written belongs to its last byte.
  struct Segment {
    std::string copied;
    Payload::Piece piece;
    std::vector<UniqueFd> fds;  // leave with the segment's first byte
    absl::InlinedVector<OnWritten, 1> on_written;
    std::string_view bytes() const { return copied.empty() ? piece.bytes : std::string_view(copied); }
  };
  enum class WriteState { kIdle, kWriting, kBlocked };

  FramedConnection(EventLoop& loop, UniqueFd socket, Options options, std::shared_ptr<Handler> handler);
  void Register();
  void OnReady(uint32_t epoll_events) override;
  void FinishClose();

  // Writing (framed_connection_write.cc). Whoever made write_state_ kWriting is the writer.
  void Append(std::string_view bytes) REQUIRES(mutex_);
  void Enqueue(uint32_t type, Payload body, SendOptions& options) REQUIRES(mutex_);
  bool BeginWriting();
  void FlushOnLoop();
  void WriteUntilDone();
  bool TakeQueue();
  ssize_t WriteSome();
  void ConsumeWritten(size_t bytes);
  void StopBlocked();
  void WriteFailed(int error);
  void RunWritten();

  // Reading (framed_connection_read.cc), on the loop's thread.
  void Read();
  absl::StatusOr<bool> ReadOnce();
  absl::StatusOr<size_t> Receive(char* to, size_t size);
  absl::Status Parse(std::string_view bytes);
  absl::Status Deliver(uint32_t tagged_type, ReceivedBytes body);

  EventLoop& loop_;
  const UniqueFd socket_;  // closed by the destructor: a writer may still be in a system call
  Options options_;
  std::shared_ptr<Handler> handler_;        // loop's thread, null once closed
  std::shared_ptr<FramedConnection> self_;  // loop's thread, from Register to FinishClose
  EventLoop::Registration registration_;
  std::atomic<bool> closed_{false};
  std::atomic<size_t> queued_bytes_{0};

  Mutex mutex_;
  std::deque<Segment> queue_ GUARDED_BY(mutex_);
  std::vector<OnWritten> written_ GUARDED_BY(mutex_);
  WriteState write_state_ GUARDED_BY(mutex_) = WriteState::kIdle;
  bool registered_ GUARDED_BY(mutex_) = false;
  bool flush_posted_ GUARDED_BY(mutex_) = false;
  bool written_posted_ GUARDED_BY(mutex_) = false;
  bool refused_ GUARDED_BY(mutex_) = false;
  bool close_when_written_ GUARDED_BY(mutex_) = false;
  absl::Status close_status_ GUARDED_BY(mutex_);

  // The writer's, or the loop's once closed.
  std::deque<Segment> writing_;
  size_t written_of_first_ = 0;

  // The reader's.
  std::string partial_;  // a header or small body of which a part was read
  struct LargeBody {
    uint32_t tagged_type = 0;
    std::shared_ptr<char> memory;
    size_t size = 0;
    size_t have = 0;
  } large_;
  std::vector<UniqueFd> received_fds_;
};

}  // namespace switchtower
