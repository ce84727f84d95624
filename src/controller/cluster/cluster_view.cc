#include "controller/cluster/cluster_view.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"

namespace switchtower {
namespace {
// Connections tried for one incarnation before its seat counts as down.
constexpr int kAttemptsMax = 5;
}  // namespace

ClusterView::ClusterView(WorkerConnector& connector, std::function<void(WorkerId)> unreachable,
                         std::shared_ptr<Poster> poster, std::shared_ptr<LossLedger> losses, Observer& observer)
    : connector_(connector),
      unreachable_(std::move(unreachable)),
      poster_(std::move(poster)),
      losses_(std::move(losses)),
      observer_(observer) {}

ClusterView::~ClusterView() { Close(); }

void ClusterView::Close() {
  closed_ = true;
  for (Seat& seat : seats_) {
    if (seat.link == nullptr) continue;
    seat.link->open = false;
    seat.link->channel->Close();
    seat.link.reset();
  }
}

void ClusterView::OnLease(SeatedLease lease) {
  if (closed_ || lease.state.version < lease_.version) return;
  lease_ = std::move(lease.state);
  std::vector<bool> named(seats_.size(), false);
  for (const SeatedSlice& slice : lease.slices) {
    for (int32_t host = 0; host < slice.info.num_hosts; ++host) {
      const int32_t index = slice.first_seat + host;
      const WorkerInfo* worker = nullptr;
      for (const WorkerInfo& info : slice.info.workers) {
        if (info.host_index == host) worker = &info;
      }
      if (index >= static_cast<int32_t>(seats_.size())) seats_.resize(index + 1);
      if (index >= static_cast<int32_t>(named.size())) named.resize(index + 1, false);
      named[index] = true;
      UpdateSeat(index, fmt::format("slice {} host {}", slice.info.name, host), worker);
    }
  }
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (i >= named.size() || !named[i]) UpdateSeat(static_cast<int32_t>(i), seats_[i].name, nullptr);
  }
}

void ClusterView::UpdateSeat(int32_t index, const std::string& name, const WorkerInfo* worker) {
  Seat& seat = seats_[index];
  if (seat.link != nullptr && (worker == nullptr || worker->id != seat.link->info.id)) {
    Lose(index, worker == nullptr ? "the resource manager no longer counts it as alive"
                                  : "it restarted or another took its place");
  }
  seat.name = name;
  if (worker == nullptr) {
    seat.expected = WorkerInfo{};
    return;
  }
  if (worker->id == seat.refused || (seat.link != nullptr && seat.link->info.id == worker->id)) return;
  const bool same = seat.expected.id == worker->id;
  seat.expected = *worker;
  if (same && seat.connecting) return;
  if (!same) seat.attempts = 0;
  Connect(index);
}

void ClusterView::Connect(int32_t index) {
  Seat& seat = seats_[index];
  seat.connecting = true;
  ++seat.attempts;
  const WorkerId worker = seat.expected.id;
  connector_.Connect(
      WorkerConnectRequest{seat.expected, lease_.id, lease_.secret, lease_.home_epoch},
      [this, poster = poster_, index, worker](absl::StatusOr<std::unique_ptr<WorkerChannel>> channel) mutable {
        // A task that finds the strand gone drops the channel with it.
        poster->Post([this, index, worker, channel = std::move(channel)]() mutable {
          Connected(index, worker, std::move(channel));
        });
      });
}

void ClusterView::Connected(int32_t index, WorkerId worker, absl::StatusOr<std::unique_ptr<WorkerChannel>> channel) {
  if (closed_) {
    if (channel.ok()) (*channel)->Close();
    return;
  }
  Seat& seat = seats_[index];
  if (seat.expected.id != worker) {  // meanwhile somebody else sits there, or nobody
    if (channel.ok()) (*channel)->Close();
    return;
  }
  seat.connecting = false;
  if (channel.ok()) {
    Admit(index, *std::move(channel));
    return;
  }
  unreachable_(worker);
  if (seat.attempts < kAttemptsMax) {
    LogInfo("{}: no connection, attempt {}: {}", seat.name, seat.attempts, std::string(channel.status().message()));
    Connect(index);
    return;
  }
  LogWarn("{}: given up after {} attempts: {}", seat.name, seat.attempts, std::string(channel.status().message()));
  seat.refused = worker;
  if (!seat.down) {
    losses_->Lost(index, seat.name, fmt::format("it can't be reached: {}", std::string(channel.status().message())));
  }
  seat.down = true;
  observer_.OnSeatDown();
}

void ClusterView::Admit(int32_t index, std::unique_ptr<WorkerChannel> channel) {
  Seat& seat = seats_[index];
  auto link = std::make_shared<WorkerLink>();
  link->info = seat.expected;
  link->seat = index;
  link->name = seat.name;
  link->channel = std::move(channel);
  seat.link = link;
  seat.occupied_once = true;
  seat.down = false;
  losses_->Returned(index);
  ++binding_version_;
  std::weak_ptr<WorkerLink> weak = link;
  WorkerChannel::Handlers handlers;
  handlers.on_event = [this, poster = poster_, weak](WorkerEvent event) {
    poster->RunOrPost([this, weak, event = std::move(event)]() mutable {
      WorkerLinkPtr link = weak.lock();
      if (link == nullptr || !link->open) return;
      if (std::holds_alternative<Watermark>(event)) seats_[link->seat].attempts = 0;  // it does its work
      observer_.OnEvent(link, std::move(event));
    });
  };
  handlers.on_closed = [this, poster = poster_, weak, index](absl::Status why) {
    poster->Post([this, weak, index, why = std::move(why)] {
      WorkerLinkPtr link = weak.lock();
      if (link == nullptr || !link->open || closed_) return;
      unreachable_(link->info.id);
      Lose(index, why.ok() ? "its connection ended" : std::string(why.message()));
      Reconnect(index, link->info.id);
    });
  };
  link->channel->Start(std::move(handlers));
  LogInfo("{} is in, worker {:016x}", link->name, link->info.id.value);
  peers_changed_ = true;
  observer_.OnWorkerIn(link);
}

void ClusterView::Lose(int32_t index, const std::string& cause) {
  Seat& seat = seats_[index];
  WorkerLinkPtr link = std::move(seat.link);
  seat.link = nullptr;
  seat.refused = link->info.id;
  seat.down = true;
  link->open = false;
  ++binding_version_;
  LogWarn("{}: worker {:016x} lost: {}", seat.name, link->info.id.value, cause);
  losses_->Lost(index, seat.name, cause);
  link->channel->Close();
  // First the cause, then the new table: a worker that only misses the peer wouldn't know why.
  observer_.OnWorkerLost(link, losses_->CheckSeat(index, 0));
  peers_changed_ = true;
  // Soon, though nobody needs it: the others let go of what they hold for it. Once for all that are lost together.
  poster_->Post([this] { TellPeers(); });
}

// The end of a connection clears a worker, so that one which is still alive is as good as a new one.
void ClusterView::Reconnect(int32_t index, WorkerId worker) {
  Seat& seat = seats_[index];
  if (seat.expected.id != worker || seat.attempts >= kAttemptsMax) return;
  seat.refused = WorkerId{};
  Connect(index);
}

void ClusterView::TellPeersAgain() {
  peers_changed_ = true;
  TellPeers();
}

void ClusterView::TellPeers() {
  if (!std::exchange(peers_changed_, false) || closed_) return;
  SetPeers peers;
  for (const WorkerLinkPtr& link : links()) {
    peers.peers.push_back(WorkerEndpoint{link->info.id, link->info.host_id, link->info.data_addresses, lease_.secret});
  }
  auto command = std::make_shared<const SharedCommand>(WorkerCommand(std::move(peers)));
  for (const WorkerLinkPtr& link : links()) link->Send(command);
}

ClusterView::SeatState ClusterView::state(int32_t seat) const {
  if (seat >= static_cast<int32_t>(seats_.size())) return SeatState::kWaiting;
  if (seats_[seat].link != nullptr) return SeatState::kUp;
  return seats_[seat].down ? SeatState::kDown : SeatState::kWaiting;
}

const WorkerLinkPtr& ClusterView::link(int32_t seat) const {
  static const WorkerLinkPtr kNobody;
  return seat < static_cast<int32_t>(seats_.size()) ? seats_[seat].link : kNobody;
}

PhysicalDevice ClusterView::Where(const Place& place) const {
  const WorkerLinkPtr& link = seats_[place.seat].link;
  CHECK(link != nullptr);
  return PhysicalDevice{link->info.id, place.ordinal};
}

std::string ClusterView::SeatName(int32_t seat) const {
  return seat < static_cast<int32_t>(seats_.size()) ? seats_[seat].name : fmt::format("seat {}", seat);
}

std::vector<WorkerLinkPtr> ClusterView::links() const {
  std::vector<WorkerLinkPtr> links;
  for (const Seat& seat : seats_) {
    if (seat.link != nullptr) links.push_back(seat.link);
  }
  return links;
}

}  // namespace switchtower
