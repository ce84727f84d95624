// A connection that a peer dialled: checks who it is, then hands its messages on.
//
// Place:    transport, private.
// Threads:  the loop's.
// Lifetime: in the core's set from accept to close.
// Errors:   a stranger's or a wrong byte ends this connection, with a line in the log.
#pragma once

#include <memory>
#include <optional>

#include "base/net/framed_connection.h"
#include "transport/fabric_core.h"
#include "transport/shm_ring.h"

namespace switchtower {

class IncomingLink : public FramedConnection::Handler, public std::enable_shared_from_this<IncomingLink> {
 public:
  IncomingLink(FabricCore& core, Path path) : core_(core), path_(path) {}

  void Open(UniqueFd socket);
  // The table has changed: perhaps it explains a hello that waits.
  void Recheck();
  void Leave();
  void Close() { connection_->Close(); }
  bool is_from(WorkerId peer) const { return state_ == State::kOpen && hello_.from == peer; }

 private:
  enum class State { kNoHello, kHelloWaits, kOpen, kEnded };

  void OnFrame(Frame frame) override;
  void OnClosed(absl::Status why) override;
  std::shared_ptr<char> AllocateBody(uint32_t type, size_t size) override;

  absl::Status OnHello(std::string_view body);
  void Welcome();
  void Refuse(const absl::Status& why);
  absl::Status OnMessageFrame(Frame& frame);
  absl::Status OnMessage(Frame& frame);
  absl::Status OnMessageHead(std::string_view body);
  absl::Status OnMessageBody(ReceivedBytes body);
  absl::Status OnRing(Frame& frame);
  absl::Status OnFastRing(Frame& frame);
  void SendBells();
  absl::Status OnRingMessage(std::string_view body);
  absl::Status OnRingChunk(std::string_view body);
  void ReleaseRing(const transport_wire::RingPlace& place);

  FabricCore& core_;
  const Path path_;
  State state_ = State::kNoHello;
  bool goodbye_ = false;
  std::shared_ptr<FramedConnection> connection_;
  transport_wire::Hello hello_;
  EventLoop::TimerId timer_;
  EventLoop::TimerId grace_timer_;

  std::unique_ptr<RingReader> ring_;
  std::shared_ptr<FastLane::Source> fast_;
  // A message whose head has come and whose payload is on its way.
  struct Partial {
    MessageHeader header;
    std::shared_ptr<char> memory;
    size_t size = 0;
    size_t have = 0;
  };
  std::optional<Partial> partial_;
};

}  // namespace switchtower
