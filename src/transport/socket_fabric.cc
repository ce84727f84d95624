#include "transport/socket_fabric.h"

#include <utility>

#include <fmt/core.h>

#include "base/status_macros.h"
#include "transport/fabric_core.h"

namespace switchtower {

absl::StatusOr<FabricMode> ParseFabricMode(std::string_view text) {
  if (text == "auto") return FabricMode::kAuto;
  if (text == "shm") return FabricMode::kShm;
  if (text == "tcp") return FabricMode::kTcp;
  return absl::InvalidArgumentError(fmt::format("\"{}\" is not a way to move data; choose auto, shm or tcp", text));
}

absl::StatusOr<std::unique_ptr<SocketFabric>> SocketFabric::Create(SocketFabricOptions options) {
  ASSIGN_OR_RETURN(auto core, FabricCore::Create(std::move(options)));
  return std::unique_ptr<SocketFabric>(new SocketFabric(std::move(core)));
}

SocketFabric::SocketFabric(std::unique_ptr<FabricCore> core) : core_(std::move(core)) {}
SocketFabric::~SocketFabric() = default;

void SocketFabric::SetReceiver(Receiver receiver) { core_->receiver = std::move(receiver); }
void SocketFabric::SetPeerLostHandler(PeerLost handler) { core_->peer_lost_handler = std::move(handler); }
void SocketFabric::Start(WorkerId self) { core_->Start(self); }
void SocketFabric::Stop() { core_->Stop(); }
PeerEndpoint SocketFabric::endpoint() const { return core_->endpoint(); }
void SocketFabric::SetPeers(const PeerTable& peers) { core_->SetPeers(peers); }
void SocketFabric::RemovePeer(WorkerId peer) { core_->RemovePeer(peer); }
void SocketFabric::Send(WorkerId peer, const MessageHeader& header, Payload payload, OnSent on_sent) {
  core_->Send(peer, header, std::move(payload), std::move(on_sent));
}
bool SocketFabric::TrySendFast(WorkerId peer, const MessageHeader& header, size_t bytes,
                               absl::FunctionRef<void(char*)> write) {
  return core_->TrySendFast(peer, header, bytes, write);
}
bool SocketFabric::WaitFast(absl::FunctionRef<bool()> done, int looks, std::chrono::steady_clock::time_point end) {
  return core_->WaitFast(done, looks, end);
}
void SocketFabric::WakeFast() { core_->WakeFast(); }
void SocketFabric::WantFast() { core_->WantFast(); }
void SocketFabric::UnwantFast() { core_->UnwantFast(); }
FabricStats SocketFabric::stats() const { return core_->stats(); }

}  // namespace switchtower
