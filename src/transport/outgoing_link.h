// One worker's way to one peer: dials on the first message, keeps the order, fails what it can't deliver.
//
// Place:    transport, private.
// Threads:  Send from any thread; one thread at a time pushes messages into the connection (or the ring),
//           others leave theirs in the backlog. The rest on the loop's thread.
// Lifetime: in the core's table until it fails; a peer named anew gets a new link.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/net/framed_connection.h"
#include "transport/fabric_core.h"
#include "transport/fast_ring.h"
#include "transport/shm_ring.h"

namespace switchtower {

class OutgoingLink : public FramedConnection::Handler, public std::enable_shared_from_this<OutgoingLink> {
 public:
  OutgoingLink(FabricCore& core, WorkerId peer) : core_(core), peer_(peer) {}

  void Send(const MessageHeader& header, Payload payload, Fabric::OnSent on_sent);
  // See Fabric::TrySendFast.
  bool SendFast(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write);
  // Loop's thread. All that is queued, and each later Send, gets `why`.
  void Fail(const absl::Status& why);
  // The same after a word of farewell to the peer.
  void Leave(const absl::Status& why);

 private:
  enum class State { kIdle, kDialing, kOpen, kFailed };
  struct Message {
    MessageHeader header;
    Payload payload;
    Fabric::OnSent on_sent;
    bool head_sent = false;
    size_t pushed = 0;  // payload bytes that are in the ring
  };
  struct Route {
    Address address;
    Path path;
  };

  // Connecting.
  void Dial();
  absl::StatusOr<std::vector<Route>> Routes(const PeerEndpoint& endpoint) const;
  void TryNextRoute(const absl::Status& last_error);
  void OnConnected(UniqueFd socket, Path path);
  void OnWelcome(std::string_view body);
  void OnBells(Frame& frame);
  void OnFrame(Frame frame) override;
  void OnClosed(absl::Status why) override;
  void Lose(const absl::Status& why);

  // Sending. The caller holds the right to push (pushing_).
  void PushBacklog();
  bool Push(Message& message);
  bool PushThroughRing(Message& message);
  void PushThroughSocket(Message& message);
  bool RingIsUsable();
  // Frames that end a message take its on_sent along.
  void SendFrame(uint32_t type, Payload body, FramedConnection::OnWritten on_written, std::vector<UniqueFd> fds = {});
  FramedConnection::OnWritten TakeOnSent(Message& message);
  void StopPushing(Message stalled);
  void PostResume();
  void Resume();
  void Refuse(Message message, const absl::Status& why);

  FabricCore& core_;
  const WorkerId peer_;

  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kIdle;
  bool pushing_ GUARDED_BY(mutex_) = false;
  bool room_again_ GUARDED_BY(mutex_) = false;  // told while somebody was pushing
  std::deque<Message> backlog_ GUARDED_BY(mutex_);
  absl::Status failure_ GUARDED_BY(mutex_);
  std::unique_ptr<FastRingWriter> fast_ring_ GUARDED_BY(mutex_);  // once there, it stays

  // Set before kOpen, constant from then on.
  std::shared_ptr<FramedConnection> connection_;
  Path path_ = Path::kTcp;
  // Whoever pushes.
  std::unique_ptr<RingWriter> ring_;
  bool ring_failed_ = false;
  // Loop's thread.
  std::vector<Route> routes_;
  size_t next_route_ = 0;
  EventLoop::TimerId handshake_timer_;
};

}  // namespace switchtower
