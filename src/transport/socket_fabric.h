// The fabric over sockets: TCP between hosts; on one host a unix socket, and a ring of shared memory for
// large payloads.
//
// Place:    transport. One connection for each direction, dialled by the sender on its first message; so
//           two peers that begin at once need no tie-break.
// Threads:  one event loop. Send writes small messages, and copies into the ring, on the caller's thread
//           where nothing is queued before them.
// Errors:   Create fails with a sentence where it can't listen.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "transport/fabric.h"

namespace switchtower {

enum class FabricMode {
  kAuto,  // unix socket and shared memory on one host, TCP else
  kShm,   // never TCP: a peer on another host is an error
  kTcp,   // always TCP
};
absl::StatusOr<FabricMode> ParseFabricMode(std::string_view text);

struct SocketFabricOptions {
  FabricMode mode = FabricMode::kAuto;
  std::string listen = "tcp:127.0.0.1:0";
  // What peers shall dial where it differs from the address listened on ("0.0.0.0").
  std::string advertise_host;
  std::string cluster_id;  // peers of another cluster are refused
  std::string build;       // so are peers of another build
  size_t ring_bytes = size_t{8} << 20;
  std::chrono::milliseconds connect_timeout{10'000};
  // How long a peer may take to say hello, and a hello may wait for the table that names its sender.
  std::chrono::milliseconds handshake_timeout{10'000};
  // How long a hello with another secret waits for the newer lease that explains it.
  std::chrono::milliseconds secret_grace{1'000};
};

class FabricCore;

class SocketFabric : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<SocketFabric>> Create(SocketFabricOptions options);
  ~SocketFabric() override;

  void SetReceiver(Receiver receiver) override;
  void SetPeerLostHandler(PeerLost handler) override;
  void Start(WorkerId self) override;
  void Stop() override;
  PeerEndpoint endpoint() const override;
  void SetPeers(const PeerTable& peers) override;
  void RemovePeer(WorkerId peer) override;
  void Send(WorkerId peer, const MessageHeader& header, Payload payload, OnSent on_sent) override;
  bool TrySendFast(WorkerId peer, const MessageHeader& header, size_t bytes,
                   absl::FunctionRef<void(char*)> write) override;
  bool WaitFast(absl::FunctionRef<bool()> done, int looks, std::chrono::steady_clock::time_point end) override;
  void WakeFast() override;
  void WantFast() override;
  void UnwantFast() override;
  FabricStats stats() const override;

 private:
  explicit SocketFabric(std::unique_ptr<FabricCore> core);
  std::unique_ptr<FabricCore> core_;
};

}  // namespace switchtower
