// What the links of one SocketFabric share: the loop, the table of peers, callbacks and counters.
//
// Place:    transport, private. SocketFabric is a thin front of it.
// Threads:  the table under a mutex, counters atomic; what is marked so on the loop's thread alone.
// Lifetime: outlives its links: Stop waits until every connection has told its end.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/address.h"
#include "base/net/event_loop.h"
#include "base/net/framed_connection.h"
#include "transport/fabric.h"
#include "transport/fast_lane.h"
#include "transport/socket_fabric.h"
#include "transport/wire.h"

namespace switchtower {

class IncomingLink;
class OutgoingLink;

enum class Path { kMemory, kShm, kFast, kUnix, kTcp };

// The end of a connection as the loss of the worker behind it (refusals and farewells stay what they are).
absl::Status LossOf(WorkerId peer, const absl::Status& why);

class FabricCore {
 public:
  static absl::StatusOr<std::unique_ptr<FabricCore>> Create(SocketFabricOptions options);
  ~FabricCore();

  // The Fabric interface.
  void Start(WorkerId self);
  void Stop();
  PeerEndpoint endpoint() const;
  void SetPeers(const PeerTable& peers);
  void RemovePeer(WorkerId peer);
  void Send(WorkerId peer, const MessageHeader& header, Payload payload, Fabric::OnSent on_sent);
  bool TrySendFast(WorkerId peer, const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write);
  bool WaitFast(absl::FunctionRef<bool()> done, int looks, std::chrono::steady_clock::time_point end) {
    return fast_lane_ != nullptr && fast_lane_->Wait(done, looks, end);
  }
  void WakeFast() {
    if (fast_lane_ != nullptr) fast_lane_->Wake();
  }
  void WantFast() {
    if (fast_lane_ != nullptr) fast_lane_->Want();
  }
  void UnwantFast() {
    if (fast_lane_ != nullptr) fast_lane_->Unwant();
  }
  FabricStats stats() const;
  Fabric::Receiver receiver;  // loop's thread, like the two below
  Fabric::PeerLost peer_lost_handler;

  // For the links.
  EventLoop& loop() { return *loop_; }
  FastLane* fast_lane() { return fast_lane_.get(); }  // null: TCP only
  const SocketFabricOptions& options() const { return options_; }
  const std::string& host_id() const { return host_id_; }
  bool stopping() const { return stopping_.load(); }
  WorkerId self() const { return WorkerId{self_.load()}; }
  transport_wire::Hello HelloTo(WorkerId peer, std::string secret) const;
  absl::StatusOr<PeerEndpoint> FindPeer(WorkerId peer) const;
  // NotFound if the table (or this worker) has no such name yet, PermissionDenied for a wrong secret.
  absl::Status CheckSecret(WorkerId peer, WorkerId to, std::string_view secret) const;
  void Deliver(WorkerId from, const MessageHeader& header, ReceivedBytes bytes, Path path);
  void CountSent(Path path, size_t bytes);
  void CountRingFull() { ring_full_waits_.fetch_add(1, std::memory_order_relaxed); }
  void CountRefused() { handshakes_refused_.fetch_add(1, std::memory_order_relaxed); }
  void AddQueued(size_t bytes) { queued_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void SubQueued(size_t bytes) { queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Loop's thread.
  void LosePeer(WorkerId peer, const absl::Status& why);
  void ForgetLink(const OutgoingLink* link, WorkerId peer);
  void ConnectionOpened() { ++connections_; }
  void ConnectionClosed();
  void ForgetIncoming(const std::shared_ptr<IncomingLink>& link);

 private:
  struct Peer {
    PeerEndpoint endpoint;
    // Of earlier leases that this peer may not have seen the end of.
    std::vector<std::string> older_secrets;
    absl::Status lost;
    std::shared_ptr<OutgoingLink> link;
  };
  struct Counters {
    std::atomic<uint64_t> messages_sent{0}, bytes_sent{0}, messages_received{0}, bytes_received{0};
  };

  explicit FabricCore(SocketFabricOptions options);
  absl::Status Open();
  void Accept(UniqueFd socket, Path path);
  void SendToSelf(const MessageHeader& header, Payload payload, Fabric::OnSent on_sent);

  const SocketFabricOptions options_;
  const std::string host_id_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<FastLane> fast_lane_;
  std::unique_ptr<Listener> unix_listener_, tcp_listener_;
  std::atomic<uint64_t> self_{0};  // 0 until Start
  std::atomic<bool> stopping_{false};

  mutable Mutex mutex_;
  absl::flat_hash_map<WorkerId, Peer> peers_ GUARDED_BY(mutex_);
  CondVar connections_changed_;
  bool all_closed_ GUARDED_BY(mutex_) = false;

  // Loop's thread.
  absl::flat_hash_set<std::shared_ptr<IncomingLink>> incoming_;
  int connections_ = 0;

  std::array<Counters, 5> counters_;  // by Path
  std::atomic<uint64_t> peers_lost_{0}, handshakes_refused_{0}, ring_full_waits_{0}, queued_bytes_{0};
};

}  // namespace switchtower
