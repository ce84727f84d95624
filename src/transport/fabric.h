// The data plane between workers: messages of a small header and any number of bytes, in order.
//
//   engine --Send--> Fabric ==(memory | shared memory | unix socket | TCP)==> Fabric --receiver--> engine
//
// Place:    transport; the collective engine and the transfers sit above, workers know nothing else of
//           each other.
// Threads:  Send, SetPeers, RemovePeer, stats from any thread. Receiver, PeerLost and on_sent callbacks
//           run on the fabric's own thread, never inside a call to the fabric but WaitFast and WantFast (the
//           receiver); they must not block, but in WaitFast, where the receiver may compute.
// Lifetime: set the callbacks before Start; Stop (or the destructor) fails what is queued, and peers
//           lose this worker. After it no callback runs and a Send is dropped. Never Stop from a callback.
// Errors:   on_sent gets DataLoss once a peer is lost, PermissionDenied if the handshake was refused,
//           FailedPrecondition for a peer that is not in the table, Cancelled after RemovePeer or Stop.
// Invariants: T-1 messages to one peer arrive once, whole and in the order of the Sends, or the peer is
//           lost. T-2 Send never blocks. T-3 each on_sent of a Send before Stop comes exactly once. T-4 a peer that
//           sends nonsense loses its own connection and nothing else.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/net/payload.h"
#include "types/ids.h"

namespace switchtower {

// Opaque to the fabric: what the engine matches messages by.
struct MessageHeader {
  std::array<uint64_t, 8> words{};
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

// How to reach a worker, as it registered itself; `secret` comes with the lease and is the same on both
// sides. The WorkerId is the incarnation: a restarted worker has another one.
struct PeerEndpoint {
  std::vector<std::string> addresses;  // base/net/address.h
  std::string host_id;                 // transport/host_id.h; equal on both sides: the same host
  std::string secret;
};
using PeerTable = absl::flat_hash_map<WorkerId, PeerEndpoint>;

struct PathStats {
  uint64_t messages_sent = 0, bytes_sent = 0;
  uint64_t messages_received = 0, bytes_received = 0;
};
struct FabricStats {
  PathStats memory, shm, fast, unix_socket, tcp;  // bytes of payloads
  uint64_t peers_lost = 0;
  uint64_t handshakes_refused = 0;
  uint64_t ring_full_waits = 0;  // a shared memory ring had no room
  uint64_t queued_bytes = 0;     // payload bytes whose on_sent is outstanding
};

class Fabric {
 public:
  using OnSent = absl::AnyInvocable<void(absl::Status)>;
  using Receiver = absl::AnyInvocable<void(WorkerId from, const MessageHeader&, ReceivedBytes)>;
  using PeerLost = absl::AnyInvocable<void(WorkerId, absl::Status)>;
  // From here on a payload moves by reference. The receiver gets memory of its own or a view into shared memory
  // (ReceivedBytes::owned()), aligned to 64 in any case.
  static constexpr size_t kLargeBytes = 32 * 1024;

  virtual ~Fabric() = default;

  virtual void SetReceiver(Receiver receiver) = 0;
  virtual void SetPeerLostHandler(PeerLost handler) = 0;
  // Gives this process its name. Connections of peers that came earlier wait for it.
  virtual void Start(WorkerId self) = 0;
  virtual void Stop() = 0;

  // What to register with the resource manager; its secret is empty.
  virtual PeerEndpoint endpoint() const = 0;
  // Adds or replaces the peers named; others stay. Naming a lost peer allows a new try.
  virtual void SetPeers(const PeerTable& peers) = 0;
  // The peer is no longer to be talked to (its lease ended): no PeerLost on either side.
  virtual void RemovePeer(WorkerId peer) = 0;

  // Connects on demand. `on_sent` (may be null) says that the payload's owners were let go: the bytes
  // are out of this process or in the kernel's hands, not that the peer has read them. The sender bounds
  // its memory by it: the fabric itself copies only payloads below kLargeBytes. A message to oneself is
  // delivered too.
  virtual void Send(WorkerId peer, const MessageHeader& header, Payload payload, OnSent on_sent) = 0;

  // For messages that somebody waits for: true if the peer shares memory with this process and the message is there
  // now, put in its place by `write` on this thread; it may overtake those of Send. False: use Send. If the peer is
  // lost nobody is told but by PeerLost.
  static constexpr size_t kFastBytesMax = 2 * 1024 * 1024;
  virtual bool TrySendFast(WorkerId, const MessageHeader&, size_t, absl::FunctionRef<void(char*)>) { return false; }
  // Delivers the fast messages of peers on this thread until `done`: looks `looks` times, letting other threads run in
  // between, then sleeps until `end`. False at `end`, at once where there are no fast messages, or if another thread
  // waits here. Never from a callback of the fabric.
  virtual bool WaitFast(absl::FunctionRef<bool()>, int, std::chrono::steady_clock::time_point) { return false; }
  // `done` of the thread that waits may have become true otherwise than by a message.
  virtual void WakeFast() {}
  // Fast messages are left lying until somebody waits in WaitFast, or while they are wanted: the fabric's own thread
  // then delivers them as they come. Calls nest.
  virtual void WantFast() {}
  virtual void UnwantFast() {}

  virtual FabricStats stats() const = 0;
};

}  // namespace switchtower
