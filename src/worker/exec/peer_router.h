// The one receiver of the fabric: hands each message of a peer to the transfers or to the collectives.
//
// Place:    worker/exec, over transport. The kind is the low byte of the header's first word; all other bits
//           belong to the handler.
// Threads:  handlers are called on the fabric's thread and must not block; SetHandler before Start.
// Lifetime: the fabric and the handlers outlive Start..Stop; after Stop no handler is called.
// Errors:   a message of an unknown kind is dropped and logged: the sender is of the same build, so it is a bug.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "transport/fabric.h"
#include "types/ids.h"

namespace switchtower {

enum class PeerMessageKind : uint8_t { kCollective = 1, kTransfer = 2 };

class PeerRouter {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnPeerMessage(WorkerId from, const MessageHeader& header, ReceivedBytes bytes) = 0;
    // Nothing more comes from `peer`, and what was sent to it may not have arrived.
    virtual void OnPeerLost(WorkerId peer, absl::Status why) = 0;
  };

  explicit PeerRouter(Fabric& fabric);
  PeerRouter(const PeerRouter&) = delete;
  PeerRouter& operator=(const PeerRouter&) = delete;

  void SetHandler(PeerMessageKind kind, Handler* handler);
  void Start(WorkerId self);
  void Stop();

  Fabric& fabric() { return fabric_; }

  static uint64_t FirstWord(PeerMessageKind kind, uint64_t upper_bits) {
    return (upper_bits << 8) | static_cast<uint8_t>(kind);
  }
  static uint64_t UpperBits(const MessageHeader& header) { return header.words[0] >> 8; }

 private:
  static constexpr size_t kKinds = 3;
  Fabric& fabric_;
  std::array<Handler*, kKinds> handlers_{};
};

}  // namespace switchtower
