#include "transport/fabric_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "transport/host_id.h"
#include "transport/incoming_link.h"
#include "transport/outgoing_link.h"

namespace switchtower {
namespace {
constexpr size_t kOlderSecretsMax = 4;
// Connections that have not said who they are, together with all others.
constexpr size_t kIncomingMax = 16'384;
}  // namespace

absl::Status LossOf(WorkerId peer, const absl::Status& why) {
  if (absl::IsPermissionDenied(why) || absl::IsCancelled(why) || absl::IsDataLoss(why)) return why;
  return absl::DataLossError(fmt::format("worker {} is lost: {}", peer.value, std::string(why.message())));
}

absl::StatusOr<std::unique_ptr<FabricCore>> FabricCore::Create(SocketFabricOptions options) {
  auto core = std::unique_ptr<FabricCore>(new FabricCore(std::move(options)));
  RETURN_IF_ERROR(core->Open());
  return core;
}

FabricCore::FabricCore(SocketFabricOptions options) : options_(std::move(options)), host_id_(LocalHostId()) {}

FabricCore::~FabricCore() { Stop(); }

absl::Status FabricCore::Open() {
  ASSIGN_OR_RETURN(loop_, EventLoop::Create("st-fabric"));
  if (options_.mode != FabricMode::kTcp) {
    ASSIGN_OR_RETURN(fast_lane_,
                     FastLane::Create(*loop_, [this](WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
                       if (!stopping()) Deliver(from, header, std::move(bytes), Path::kFast);
                     }));
    ASSIGN_OR_RETURN(unix_listener_, Listener::Create(*loop_, Address::UniqueAbstract("switchtower"),
                                                      [this](UniqueFd fd) { Accept(std::move(fd), Path::kUnix); }));
  }
  if (options_.mode != FabricMode::kShm) {
    ASSIGN_OR_RETURN(const Address address, Address::Parse(options_.listen));
    ASSIGN_OR_RETURN(tcp_listener_,
                     Listener::Create(*loop_, address, [this](UniqueFd fd) { Accept(std::move(fd), Path::kTcp); }));
  }
  return absl::OkStatus();
}

void FabricCore::Start(WorkerId self) {
  CHECK(self.value != 0);
  self_.store(self.value);
  loop_->Post([this] {
    const auto links = incoming_;
    for (const auto& link : links) link->Recheck();
  });
}

void FabricCore::Stop() {
  if (loop_ == nullptr || stopping_.exchange(true)) return;
  unix_listener_.reset();
  tcp_listener_.reset();
  loop_->RunAndWait([this] {
    std::vector<std::shared_ptr<OutgoingLink>> links;
    {
      MutexLock lock(mutex_);
      for (auto& [id, peer] : peers_) {
        if (peer.link != nullptr) links.push_back(std::move(peer.link));
      }
      peers_.clear();
      all_closed_ = connections_ == 0;
    }
    for (const auto& link : links) link->Fail(absl::CancelledError("this worker's fabric was stopped"));
    const auto incoming = incoming_;
    for (const auto& link : incoming) link->Close();
  });
  {
    MutexLock lock(mutex_);
    while (!all_closed_) connections_changed_.Wait(mutex_);
  }
  loop_->Stop();
}

void FabricCore::ConnectionClosed() {
  if (--connections_ > 0 || !stopping()) return;
  MutexLock lock(mutex_);
  all_closed_ = true;
  connections_changed_.NotifyAll();
}

PeerEndpoint FabricCore::endpoint() const {
  PeerEndpoint endpoint;
  endpoint.host_id = host_id_;
  if (unix_listener_ != nullptr) endpoint.addresses.push_back(unix_listener_->address().ToString());
  if (tcp_listener_ != nullptr) {
    Address address = tcp_listener_->address();
    if (!options_.advertise_host.empty()) address.host = options_.advertise_host;
    endpoint.addresses.push_back(address.ToString());
  }
  return endpoint;
}

void FabricCore::SetPeers(const PeerTable& peers) {
  {
    MutexLock lock(mutex_);
    if (stopping()) return;
    for (const auto& [id, endpoint] : peers) {
      Peer& peer = peers_[id];
      if (!peer.endpoint.secret.empty() && peer.endpoint.secret != endpoint.secret) {
        peer.older_secrets.push_back(peer.endpoint.secret);
        if (peer.older_secrets.size() > kOlderSecretsMax) {
          peer.older_secrets.erase(peer.older_secrets.begin());
        }
      }
      peer.endpoint = endpoint;
      if (!peer.lost.ok()) peer.link = nullptr;
      peer.lost = absl::OkStatus();
    }
  }
  loop_->Post([this] {
    const auto links = incoming_;
    for (const auto& link : links) link->Recheck();
  });
}

void FabricCore::RemovePeer(WorkerId id) {
  std::shared_ptr<OutgoingLink> link;
  {
    MutexLock lock(mutex_);
    auto it = peers_.find(id);
    if (it == peers_.end()) return;
    link = std::move(it->second.link);
    peers_.erase(it);
  }
  loop_->Post([this, id, link] {
    if (link != nullptr) {
      link->Leave(absl::CancelledError(fmt::format("worker {} is no longer a peer", id.value)));
    }
    const auto incoming = incoming_;
    for (const auto& from : incoming) {
      if (from->is_from(id)) from->Leave();
    }
  });
}

void FabricCore::Send(WorkerId id, const MessageHeader& header, Payload payload, Fabric::OnSent on_sent) {
  if (stopping()) return;
  if (id == self()) return SendToSelf(header, std::move(payload), std::move(on_sent));
  std::shared_ptr<OutgoingLink> link;
  absl::Status error;
  {
    MutexLock lock(mutex_);
    auto it = peers_.find(id);
    if (it == peers_.end()) {
      error = absl::FailedPreconditionError(
          fmt::format("worker {} is not among the peers of worker {}", id.value, self().value));
    } else if (!it->second.lost.ok()) {
      error = it->second.lost;
    } else {
      if (it->second.link == nullptr) it->second.link = std::make_shared<OutgoingLink>(*this, id);
      link = it->second.link;
    }
  }
  if (link != nullptr) return link->Send(header, std::move(payload), std::move(on_sent));
  if (on_sent == nullptr) return;
  loop_->Post([on_sent = std::move(on_sent), error]() mutable { on_sent(error); });
}

bool FabricCore::TrySendFast(WorkerId id, const MessageHeader& header, size_t bytes,
                             absl::FunctionRef<void(char*)> write) {
  if (fast_lane_ == nullptr || stopping()) return false;
  std::shared_ptr<OutgoingLink> link;
  {
    MutexLock lock(mutex_);
    auto it = peers_.find(id);
    if (it == peers_.end() || it->second.link == nullptr) return false;
    link = it->second.link;
  }
  if (!link->SendFast(header, bytes, write)) return false;
  CountSent(Path::kFast, bytes);
  return true;
}

void FabricCore::SendToSelf(const MessageHeader& header, Payload payload, Fabric::OnSent on_sent) {
  payload.Own();
  loop_->Post([this, header, payload = std::move(payload), on_sent = std::move(on_sent)]() mutable {
    if (stopping()) {
      if (on_sent != nullptr) on_sent(absl::CancelledError("this worker's fabric was stopped"));
      return;
    }
    const size_t size = payload.size();
    std::shared_ptr<char> memory = AllocateBytes(size);
    CHECK(memory != nullptr);
    payload.CopyTo(memory.get(), 0, size);
    CountSent(Path::kMemory, size);
    payload = Payload();
    if (on_sent != nullptr) on_sent(absl::OkStatus());
    Deliver(self(), header, ReceivedBytes(std::move(memory), size), Path::kMemory);
  });
}

void FabricCore::Accept(UniqueFd socket, Path path) {
  if (stopping() || incoming_.size() >= kIncomingMax) {
    LogWarn("connection of a peer refused, {} are open", incoming_.size());
    return;
  }
  auto link = std::make_shared<IncomingLink>(*this, path);
  incoming_.insert(link);
  link->Open(std::move(socket));
}

void FabricCore::ForgetIncoming(const std::shared_ptr<IncomingLink>& link) { incoming_.erase(link); }

void FabricCore::ForgetLink(const OutgoingLink* link, WorkerId id) {
  MutexLock lock(mutex_);
  auto it = peers_.find(id);
  if (it != peers_.end() && it->second.link.get() == link) it->second.link = nullptr;
}

void FabricCore::LosePeer(WorkerId id, const absl::Status& why) {
  if (stopping()) return;
  std::shared_ptr<OutgoingLink> link;
  {
    MutexLock lock(mutex_);
    auto it = peers_.find(id);
    if (it == peers_.end() || !it->second.lost.ok()) return;
    it->second.lost = why;
    link = std::move(it->second.link);
  }
  peers_lost_.fetch_add(1, std::memory_order_relaxed);
  LogWarn("{}", std::string(why.message()));
  if (link != nullptr) link->Fail(why);
  const auto incoming = incoming_;
  for (const auto& from : incoming) {
    if (from->is_from(id)) from->Close();
  }
  if (peer_lost_handler != nullptr) peer_lost_handler(id, why);
}

transport_wire::Hello FabricCore::HelloTo(WorkerId peer, std::string secret) const {
  transport_wire::Hello hello;
  hello.from = self();
  hello.to = peer;
  hello.cluster_id = options_.cluster_id;
  hello.build = options_.build;
  hello.secret = std::move(secret);
  return hello;
}

absl::StatusOr<PeerEndpoint> FabricCore::FindPeer(WorkerId id) const {
  MutexLock lock(mutex_);
  auto it = peers_.find(id);
  if (it == peers_.end()) {
    return absl::NotFoundError(fmt::format("worker {} is not among the peers", id.value));
  }
  return it->second.endpoint;
}

absl::Status FabricCore::CheckSecret(WorkerId id, WorkerId to, std::string_view secret) const {
  MutexLock lock(mutex_);
  auto it = peers_.find(id);
  if (self().value == 0 || it == peers_.end()) {
    return absl::NotFoundError(fmt::format("worker {} is not among the peers", id.value));
  }
  if (to != self()) {
    return absl::PermissionDeniedError(fmt::format("worker {} was wanted, this is worker {}", to.value, self().value));
  }
  bool right = SecretsEqual(secret, it->second.endpoint.secret);
  for (const std::string& older : it->second.older_secrets) right |= SecretsEqual(secret, older);
  if (!right || secret.empty()) {
    return absl::PermissionDeniedError(fmt::format("worker {} gave a wrong secret", id.value));
  }
  return absl::OkStatus();
}

void FabricCore::Deliver(WorkerId from, const MessageHeader& header, ReceivedBytes bytes, Path path) {
  Counters& counters = counters_[static_cast<size_t>(path)];
  counters.messages_received.fetch_add(1, std::memory_order_relaxed);
  counters.bytes_received.fetch_add(bytes.size(), std::memory_order_relaxed);
  if (receiver != nullptr) receiver(from, header, std::move(bytes));
}

void FabricCore::CountSent(Path path, size_t bytes) {
  Counters& counters = counters_[static_cast<size_t>(path)];
  counters.messages_sent.fetch_add(1, std::memory_order_relaxed);
  counters.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
}

FabricStats FabricCore::stats() const {
  const auto read = [this](Path path) {
    const Counters& counters = counters_[static_cast<size_t>(path)];
    return PathStats{counters.messages_sent, counters.bytes_sent, counters.messages_received, counters.bytes_received};
  };
  FabricStats stats;
  stats.memory = read(Path::kMemory);
  stats.shm = read(Path::kShm);
  stats.fast = read(Path::kFast);
  stats.unix_socket = read(Path::kUnix);
  stats.tcp = read(Path::kTcp);
  stats.peers_lost = peers_lost_;
  stats.handshakes_refused = handshakes_refused_;
  stats.ring_full_waits = ring_full_waits_;
  stats.queued_bytes = queued_bytes_;
  return stats;
}

}  // namespace switchtower
