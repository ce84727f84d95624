#include "transport/inprocess_fabric.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/net/address.h"
#include "base/strand.h"

namespace switchtower {
namespace {

// A message on its way, the payload copied: the sender's memory is free at once.
struct Parcel {
  WorkerId from;
  std::string secret;
  MessageHeader header;
  std::shared_ptr<char> bytes;
  size_t size;
};

}  // namespace

// All that the endpoints of one network share. One mutex guards the lot: this is for tests.
struct InProcessNetwork::Hub {
  explicit Hub(int threads) : pool("st-inprocess", threads) {}

  ThreadPool pool;
  Mutex mutex;
  absl::flat_hash_map<WorkerId, InProcessFabric*> endpoints GUARDED_BY(mutex);
};

class InProcessFabric : public Fabric {
 public:
  explicit InProcessFabric(std::shared_ptr<InProcessNetwork::Hub> hub) : hub_(std::move(hub)), strand_(hub_->pool) {}
  ~InProcessFabric() override { Stop(); }

  void SetReceiver(Receiver receiver) override { receiver_ = std::move(receiver); }
  void SetPeerLostHandler(PeerLost handler) override { peer_lost_ = std::move(handler); }

  void Start(WorkerId self) override {
    MutexLock lock(hub_->mutex);
    self_ = self;
    CHECK(hub_->endpoints.emplace(self, this).second);
  }

  void Stop() override {
    {
      MutexLock lock(hub_->mutex);
      DieLocked();
    }
    strand_.Stop();
  }

  PeerEndpoint endpoint() const override { return PeerEndpoint{{"in-process"}, "in-process", ""}; }

  void SetPeers(const PeerTable& peers) override {
    MutexLock lock(hub_->mutex);
    for (const auto& [id, endpoint] : peers) {
      Peer& peer = peers_[id];
      peer.secret = endpoint.secret;
      peer.lost = absl::OkStatus();
      auto waiting = waiting_.extract(id);
      if (!waiting) continue;
      for (Parcel& parcel : waiting.mapped()) {
        auto sender = hub_->endpoints.find(parcel.from);
        const absl::Status accepted = AcceptLocked(std::move(parcel));
        if (!accepted.ok() && sender != hub_->endpoints.end()) sender->second->LoseLocked(self_, accepted);
      }
    }
  }

  void RemovePeer(WorkerId peer) override {
    MutexLock lock(hub_->mutex);
    peers_.erase(peer);
  }

  void Send(WorkerId to, const MessageHeader& header, Payload payload, OnSent on_sent) override {
    auto bytes = AllocateBytes(payload.size());
    CHECK(bytes != nullptr);
    payload.CopyTo(bytes.get(), 0, payload.size());
    Parcel parcel{self_, "", header, std::move(bytes), payload.size()};
    payload = Payload();
    MutexLock lock(hub_->mutex);
    if (dead_) return;
    const absl::Status status = SendLocked(to, std::move(parcel));
    if (on_sent == nullptr) return;
    strand_.Post([on_sent = std::move(on_sent), status]() mutable { on_sent(status); });
  }

  FabricStats stats() const override {
    MutexLock lock(hub_->mutex);
    return stats_;
  }

  void DieLocked() REQUIRES(hub_->mutex) {
    if (std::exchange(dead_, true) || self_.value == 0) return;
    hub_->endpoints.erase(self_);
    for (auto& [id, other] : hub_->endpoints) {
      other->LoseLocked(self_, absl::DataLossError(fmt::format("worker {} is lost: it has ended", self_.value)));
    }
  }

 private:
  struct Peer {
    std::string secret;
    absl::Status lost;
  };

  absl::Status SendLocked(WorkerId to, Parcel parcel) REQUIRES(hub_->mutex) {
    ++stats_.memory.messages_sent;
    stats_.memory.bytes_sent += parcel.size;
    if (to == self_) {
      DeliverLocked(std::move(parcel));
      return absl::OkStatus();
    }
    auto peer = peers_.find(to);
    if (peer == peers_.end()) {
      return absl::FailedPreconditionError(
          fmt::format("worker {} is not among the peers of worker {}", to.value, self_.value));
    }
    if (!peer->second.lost.ok()) return peer->second.lost;
    auto target = hub_->endpoints.find(to);
    if (target == hub_->endpoints.end()) {
      const auto lost = absl::DataLossError(fmt::format("worker {} is lost: nobody answers", to.value));
      LoseLocked(to, lost);
      return lost;
    }
    parcel.secret = peer->second.secret;
    const absl::Status accepted = target->second->AcceptLocked(std::move(parcel));
    if (!accepted.ok()) LoseLocked(to, accepted);
    return accepted;
  }

  // At the receiver. Parcels of a worker that no table names yet wait for it.
  absl::Status AcceptLocked(Parcel parcel) REQUIRES(hub_->mutex) {
    auto peer = peers_.find(parcel.from);
    if (peer == peers_.end()) {
      waiting_[parcel.from].push_back(std::move(parcel));
      return absl::OkStatus();
    }
    if (parcel.secret.empty() || !SecretsEqual(parcel.secret, peer->second.secret)) {
      ++stats_.handshakes_refused;
      return absl::PermissionDeniedError(
          fmt::format("worker {} refused worker {}: a wrong secret", self_.value, parcel.from.value));
    }
    DeliverLocked(std::move(parcel));
    return absl::OkStatus();
  }

  void DeliverLocked(Parcel parcel) REQUIRES(hub_->mutex) {
    ++stats_.memory.messages_received;
    stats_.memory.bytes_received += parcel.size;
    strand_.Post([this, parcel = std::move(parcel)]() mutable {
      {
        MutexLock lock(hub_->mutex);
        if (dead_) return;
      }
      if (receiver_ == nullptr) return;
      receiver_(parcel.from, parcel.header, ReceivedBytes(std::move(parcel.bytes), parcel.size));
    });
  }

  void LoseLocked(WorkerId id, const absl::Status& why) REQUIRES(hub_->mutex) {
    auto peer = peers_.find(id);
    if (peer == peers_.end() || !peer->second.lost.ok()) return;
    peer->second.lost = why;
    ++stats_.peers_lost;
    strand_.Post([this, id, why] {
      {
        MutexLock lock(hub_->mutex);
        if (dead_) return;
      }
      if (peer_lost_ != nullptr) peer_lost_(id, why);
    });
  }

  const std::shared_ptr<InProcessNetwork::Hub> hub_;
  Strand strand_;
  Receiver receiver_;
  PeerLost peer_lost_;
  WorkerId self_;
  bool dead_ GUARDED_BY(hub_->mutex) = false;
  absl::flat_hash_map<WorkerId, Peer> peers_ GUARDED_BY(hub_->mutex);
  absl::flat_hash_map<WorkerId, std::vector<Parcel>> waiting_ GUARDED_BY(hub_->mutex);
  FabricStats stats_ GUARDED_BY(hub_->mutex);
};

InProcessNetwork::InProcessNetwork(int threads) : hub_(std::make_shared<Hub>(threads)) {}
InProcessNetwork::~InProcessNetwork() = default;

std::unique_ptr<Fabric> InProcessNetwork::NewEndpoint() { return std::make_unique<InProcessFabric>(hub_); }

void InProcessNetwork::Kill(WorkerId worker) {
  MutexLock lock(hub_->mutex);
  auto it = hub_->endpoints.find(worker);
  if (it != hub_->endpoints.end()) it->second->DieLocked();
}

}  // namespace switchtower
