#include "transport/outgoing_link.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace switchtower {

using transport_wire::AsBytes;

// Connecting -----------------------------------------------------------------------------------------

void OutgoingLink::Dial() {
  auto endpoint = core_.FindPeer(peer_);
  if (!endpoint.ok()) return Fail(endpoint.status());
  auto routes = Routes(*endpoint);
  if (!routes.ok()) return Lose(routes.status());
  routes_ = *std::move(routes);
  handshake_timer_ = core_.loop().RunAfter(
      core_.options().connect_timeout + core_.options().handshake_timeout,
      [self = shared_from_this()] { self->Lose(absl::DeadlineExceededError("the handshake takes too long")); });
  TryNextRoute(absl::UnavailableError("it has no address that this worker can use"));
}

absl::StatusOr<std::vector<OutgoingLink::Route>> OutgoingLink::Routes(const PeerEndpoint& endpoint) const {
  const FabricMode mode = core_.options().mode;
  const bool same_host = endpoint.host_id == core_.host_id();
  if (mode == FabricMode::kShm && !same_host) {
    return absl::FailedPreconditionError("it is on another host, and this worker was told to use shared memory only");
  }
  std::vector<Route> routes;
  for (const std::string& text : endpoint.addresses) {
    ASSIGN_OR_RETURN(Address address, Address::Parse(text));
    if (address.is_unix()) {
      if (same_host && mode != FabricMode::kTcp) {
        routes.insert(routes.begin(), Route{std::move(address), Path::kUnix});
      }
    } else if (mode != FabricMode::kShm) {
      routes.push_back(Route{std::move(address), Path::kTcp});
    }
  }
  return routes;
}

void OutgoingLink::TryNextRoute(const absl::Status& last_error) {
  if (next_route_ == routes_.size()) return Lose(last_error);
  const Route& route = routes_[next_route_++];
  Connect(core_.loop(), route.address, core_.options().connect_timeout,
          [self = shared_from_this(), path = route.path](absl::StatusOr<UniqueFd> socket) {
            if (socket.ok()) return self->OnConnected(*std::move(socket), path);
            self->TryNextRoute(socket.status());
          });
}

void OutgoingLink::OnConnected(UniqueFd socket, Path path) {
  {
    MutexLock lock(mutex_);
    if (state_ == State::kFailed || core_.stopping()) return;
  }
  auto endpoint = core_.FindPeer(peer_);
  if (!endpoint.ok()) return Fail(endpoint.status());
  FramedConnection::Options options;
  options.body_bytes_max = transport_wire::kHelloBytesMax;
  options.queue_bytes_max = std::numeric_limits<size_t>::max();  // on_sent bounds it
  path_ = path;
  core_.ConnectionOpened();
  connection_ = FramedConnection::Create(core_.loop(), std::move(socket), options, shared_from_this());
  SendFrame(transport_wire::kHello, Payload(transport_wire::EncodeHello(core_.HelloTo(peer_, endpoint->secret))),
            nullptr);
  connection_->Flush();
}

void OutgoingLink::OnWelcome(std::string_view body) {
  auto welcome = transport_wire::DecodeHello(body);
  if (!welcome.ok()) return Lose(welcome.status());
  if (welcome->version != transport_wire::kVersion || welcome->from != peer_ || welcome->to != core_.self() ||
      welcome->cluster_id != core_.options().cluster_id || welcome->build != core_.options().build) {
    return Lose(absl::PermissionDeniedError(fmt::format("who answers for worker {} is somebody else", peer_.value)));
  }
  core_.loop().Cancel(handshake_timer_);
  {
    MutexLock lock(mutex_);
    if (state_ != State::kDialing) return;
    state_ = State::kOpen;
  }
  Resume();
}

void OutgoingLink::OnFrame(Frame frame) {
  switch (frame.type) {
    case transport_wire::kWelcome:
      return OnWelcome(frame.body.view());
    case transport_wire::kRefused:
      return Lose(absl::PermissionDeniedError(
          fmt::format("worker {} refused worker {}: {}", peer_.value, core_.self().value, frame.body.view())));
    case transport_wire::kBells:
      return OnBells(frame);
    case transport_wire::kRingFree:
      return Resume();
    case transport_wire::kGoodbye:
      core_.ForgetLink(this, peer_);
      return Fail(absl::CancelledError(fmt::format("worker {} ended the connection", peer_.value)));
    default:
      return Lose(absl::InvalidArgumentError(fmt::format("it sent a frame of type {}", frame.type)));
  }
}

void OutgoingLink::OnBells(Frame& frame) {
  bool expected = path_ == Path::kUnix && frame.fds.size() == 2;
  {
    MutexLock lock(mutex_);
    expected = expected && state_ == State::kOpen && fast_ring_ == nullptr;
  }
  if (!expected) return Lose(absl::InvalidArgumentError("it sent bells unasked"));
  auto ring = FastRingWriter::Create(FastBells{std::move(frame.fds[0]), std::move(frame.fds[1])});
  if (!ring.ok()) {
    LogWarn("no fast ring with worker {}, the socket carries all: {}", peer_.value,
            std::string(ring.status().message()));
    return;
  }
  std::vector<UniqueFd> fds;
  fds.push_back((*ring)->TakeFd());
  SendFrame(transport_wire::kFastRing, Payload(), nullptr, std::move(fds));
  connection_->Flush();
  MutexLock lock(mutex_);
  fast_ring_ = *std::move(ring);
}

void OutgoingLink::OnClosed(absl::Status why) {
  core_.ConnectionClosed();
  Lose(why);
}

void OutgoingLink::Lose(const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (state_ == State::kFailed) return;
  }
  const absl::Status loss = LossOf(peer_, why);
  core_.LosePeer(peer_, loss);
  Fail(loss);  // where the table does not know this link any more
}

void OutgoingLink::Fail(const absl::Status& why) {
  std::deque<Message> backlog;
  {
    MutexLock lock(mutex_);
    if (state_ == State::kFailed) return;
    state_ = State::kFailed;
    failure_ = why;
    backlog.swap(backlog_);
  }
  core_.loop().Cancel(handshake_timer_);
  for (Message& message : backlog) Refuse(std::move(message), why);
  if (connection_ != nullptr) connection_->Close(why);
}

void OutgoingLink::Leave(const absl::Status& why) {
  if (connection_ != nullptr) {
    SendFrame(transport_wire::kGoodbye, Payload(), nullptr);
    connection_->WriteInline();
  }
  Fail(why);
}

// Sending --------------------------------------------------------------------------------------------

void OutgoingLink::Send(const MessageHeader& header, Payload payload, Fabric::OnSent on_sent) {
  core_.AddQueued(payload.size());
  Message message{header, std::move(payload), std::move(on_sent)};
  absl::Status failure;
  {
    MutexLock lock(mutex_);
    if (state_ == State::kFailed) {
      failure = failure_;
    } else if (state_ != State::kOpen || pushing_ || !backlog_.empty()) {
      message.payload.Own();
      backlog_.push_back(std::move(message));
      if (state_ == State::kIdle) {
        state_ = State::kDialing;
        core_.loop().Post([self = shared_from_this()] { self->Dial(); });
      }
      return;
    } else {
      pushing_ = true;
    }
  }
  if (!failure.ok()) return Refuse(std::move(message), failure);
  if (!Push(message)) {
    message.payload.Own();
    StopPushing(std::move(message));
  } else {
    MutexLock lock(mutex_);
    pushing_ = false;
    // Others' messages are the loop's business: this thread has its own.
    if (!backlog_.empty()) PostResume();
  }
  connection_->Flush();
}

bool OutgoingLink::SendFast(const MessageHeader& header, size_t bytes, absl::FunctionRef<void(char*)> write) {
  FastRingWriter* ring = nullptr;
  {
    MutexLock lock(mutex_);
    if (state_ != State::kOpen || fast_ring_ == nullptr) return false;
    ring = fast_ring_.get();
  }
  return ring->Send(header, bytes, write);
}

void OutgoingLink::PostResume() {
  core_.loop().Post([self = shared_from_this()] { self->Resume(); });
}

void OutgoingLink::Resume() {
  {
    MutexLock lock(mutex_);
    if (pushing_) room_again_ = true;
    if (pushing_ || state_ != State::kOpen) return;
    pushing_ = true;
  }
  PushBacklog();
}

void OutgoingLink::PushBacklog() {
  while (true) {
    Message message;
    {
      MutexLock lock(mutex_);
      if (backlog_.empty()) {
        pushing_ = false;
        break;
      }
      message = std::move(backlog_.front());
      backlog_.pop_front();
    }
    if (!Push(message)) {
      StopPushing(std::move(message));
      break;
    }
  }
  connection_->Flush();
}

void OutgoingLink::StopPushing(Message stalled) {
  absl::Status failure;
  {
    MutexLock lock(mutex_);
    pushing_ = false;
    const bool again = std::exchange(room_again_, false);
    if (state_ == State::kFailed) {
      failure = failure_;
    } else {
      backlog_.push_front(std::move(stalled));
      if (again) PostResume();
    }
  }
  if (!failure.ok()) Refuse(std::move(stalled), failure);
}

// False if the ring is full; the message is then continued later.
bool OutgoingLink::Push(Message& message) {
  const size_t bytes = message.payload.size();
  if (bytes >= Fabric::kLargeBytes && path_ == Path::kUnix && RingIsUsable()) {
    if (!PushThroughRing(message)) {
      core_.CountRingFull();
      return false;
    }
    core_.CountSent(Path::kShm, bytes);
    message.payload = Payload();
    if (auto on_sent = TakeOnSent(message)) {
      core_.loop().Post([on_sent = std::move(on_sent)]() mutable { on_sent(absl::OkStatus()); });
    }
    core_.SubQueued(bytes);
    return true;
  }
  PushThroughSocket(message);
  core_.CountSent(path_, bytes);
  return true;
}

bool OutgoingLink::RingIsUsable() {
  if (ring_ != nullptr) return true;
  if (ring_failed_) return false;
  auto ring = RingWriter::Create(core_.options().ring_bytes);
  if (!ring.ok()) {
    LogWarn("no shared memory with worker {}, the socket carries all: {}", peer_.value,
            std::string(ring.status().message()));
    ring_failed_ = true;
    return false;
  }
  ring_ = *std::move(ring);
  std::vector<UniqueFd> fds;
  fds.push_back(ring_->TakeFd());
  SendFrame(transport_wire::kRing, Payload(), nullptr, std::move(fds));
  return true;
}

bool OutgoingLink::PushThroughRing(Message& message) {
  const size_t bytes = message.payload.size();
  if (bytes <= ring_->size() / 4) {
    const auto room = ring_->ReserveWhole(bytes);
    if (!room.has_value()) return false;
    message.payload.CopyTo(room->memory, 0, bytes);
    ring_->Commit(*room, bytes);
    const transport_wire::RingMessage body{message.header, {room->position, bytes}};
    SendFrame(transport_wire::kRingMessage, Payload::View(AsBytes(body)), nullptr);
    return true;
  }
  if (!message.head_sent) {
    const transport_wire::MessageHead head{message.header, bytes};
    SendFrame(transport_wire::kMessageHead, Payload::View(AsBytes(head)), nullptr);
    message.head_sent = true;
  }
  while (message.pushed < bytes) {
    const auto room = ring_->ReserveSome(std::min(bytes - message.pushed, ring_->size() / 8));
    if (!room.has_value()) return false;
    message.payload.CopyTo(room->memory, message.pushed, room->bytes);
    ring_->Commit(*room, room->bytes);
    message.pushed += room->bytes;
    const transport_wire::RingPlace place{room->position, room->bytes};
    SendFrame(transport_wire::kRingChunk, Payload::View(AsBytes(place)), nullptr);
    // The peer copies this chunk out while the next one is copied in.
    connection_->WriteInline();
  }
  return true;
}

void OutgoingLink::PushThroughSocket(Message& message) {
  auto on_sent = TakeOnSent(message);
  const size_t bytes = message.payload.size();
  FramedConnection::OnWritten on_written;
  // A small message was copied when the frame is queued; nobody need be told if nobody asked.
  if (on_sent == nullptr && bytes < Fabric::kLargeBytes) {
    core_.SubQueued(bytes);
  } else {
    on_written = [&core = core_, peer = peer_, bytes, on_sent = std::move(on_sent)](absl::Status status) mutable {
      core.SubQueued(bytes);
      if (on_sent != nullptr) on_sent(status.ok() ? status : LossOf(peer, status));
    };
  }
  if (bytes < Fabric::kLargeBytes) {
    Payload body = Payload::View(AsBytes(message.header));
    for (Payload::Piece& piece : std::move(message.payload).TakePieces()) {
      body.Append(piece.bytes, std::move(piece.owner));
    }
    return SendFrame(transport_wire::kMessage, std::move(body), std::move(on_written));
  }
  const transport_wire::MessageHead head{message.header, bytes};
  SendFrame(transport_wire::kMessageHead, Payload::View(AsBytes(head)), nullptr);
  SendFrame(transport_wire::kMessageBody, std::move(message.payload), std::move(on_written));
}

void OutgoingLink::SendFrame(uint32_t type, Payload body, FramedConnection::OnWritten on_written,
                             std::vector<UniqueFd> fds) {
  FramedConnection::SendOptions options;
  options.when = FramedConnection::When::kFlush;
  options.on_written = std::move(on_written);
  options.fds = std::move(fds);
  const absl::Status status = connection_->Send(type, std::move(body), std::move(options));
  if (status.ok() || options.on_written == nullptr) return;
  // Closed in this moment; OnClosed tells the rest.
  core_.loop().Post([on_written = std::move(options.on_written)]() mutable {
    on_written(absl::UnavailableError("the connection is closed"));
  });
}

FramedConnection::OnWritten OutgoingLink::TakeOnSent(Message& message) {
  return std::exchange(message.on_sent, nullptr);
}

void OutgoingLink::Refuse(Message message, const absl::Status& why) {
  core_.SubQueued(message.payload.size());
  if (message.on_sent == nullptr) return;
  core_.loop().Post([on_sent = std::move(message.on_sent), why]() mutable { on_sent(why); });
}

}  // namespace switchtower
