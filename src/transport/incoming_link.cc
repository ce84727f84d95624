#include "transport/incoming_link.h"

#include <string.h>

#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

using transport_wire::FromBytes;

// Larger than a shard can be: a bound against a number that makes no sense.
constexpr uint64_t kPayloadBytesMax = uint64_t{1} << 38;

absl::Status Unexpected(std::string_view what) { return absl::InvalidArgumentError(fmt::format("it sent {}", what)); }

}  // namespace

void IncomingLink::Open(UniqueFd socket) {
  FramedConnection::Options options;
  options.body_bytes_max = transport_wire::kHelloBytesMax;
  core_.ConnectionOpened();
  connection_ = FramedConnection::Create(core_.loop(), std::move(socket), options, shared_from_this());
  timer_ = core_.loop().RunAfter(core_.options().handshake_timeout, [self = shared_from_this()] {
    if (self->state_ == State::kNoHello) {
      self->connection_->Close(absl::DeadlineExceededError("no hello came"));
    } else if (self->state_ == State::kHelloWaits) {
      self->Refuse(absl::PermissionDeniedError("no lease names that worker as a peer"));
    }
  });
}

void IncomingLink::OnFrame(Frame frame) {
  absl::Status status;
  if (state_ == State::kNoHello) {
    status = frame.type == transport_wire::kHello ? OnHello(frame.body.view())
                                                  : Unexpected("something else before its hello");
  } else if (state_ == State::kOpen) {
    status = OnMessageFrame(frame);
  } else if (state_ == State::kHelloWaits) {
    status = Unexpected("more before its hello was answered");
  }
  if (!status.ok()) connection_->Close(status);
}

void IncomingLink::OnClosed(absl::Status why) {
  core_.loop().Cancel(timer_);
  core_.loop().Cancel(grace_timer_);
  core_.ConnectionClosed();
  const State state = std::exchange(state_, State::kEnded);
  const auto self = shared_from_this();
  if (fast_ != nullptr) core_.fast_lane()->Remove(fast_);
  core_.ForgetIncoming(self);
  if (why.ok() || goodbye_) return;
  if (state == State::kOpen) {
    core_.LosePeer(hello_.from, LossOf(hello_.from, why));
  } else if (state == State::kNoHello && !absl::IsUnavailable(why)) {
    LogWarn("connection of a stranger closed, {}", std::string(why.message()));
  }
}

absl::Status IncomingLink::OnHello(std::string_view body) {
  ASSIGN_OR_RETURN(hello_, transport_wire::DecodeHello(body));
  state_ = State::kHelloWaits;
  const SocketFabricOptions& options = core_.options();
  if (hello_.version != transport_wire::kVersion) {
    Refuse(absl::PermissionDeniedError(fmt::format("it speaks version {} of the data plane, this worker speaks {}",
                                                   hello_.version, transport_wire::kVersion)));
  } else if (hello_.cluster_id != options.cluster_id) {
    Refuse(absl::PermissionDeniedError("it belongs to another cluster"));
  } else if (hello_.build != options.build) {
    Refuse(absl::PermissionDeniedError(
        fmt::format("it is build \"{}\", this worker is build \"{}\"", hello_.build, options.build)));
  } else {
    Recheck();
  }
  return absl::OkStatus();
}

void IncomingLink::Recheck() {
  if (state_ != State::kHelloWaits) return;
  const absl::Status status = core_.CheckSecret(hello_.from, hello_.to, hello_.secret);
  if (status.ok()) return Welcome();
  if (!absl::IsPermissionDenied(status) || grace_timer_.id != 0) return;
  grace_timer_ = core_.loop().RunAfter(core_.options().secret_grace, [self = shared_from_this(), status] {
    if (self->state_ == State::kHelloWaits) self->Refuse(status);
  });
}

void IncomingLink::Welcome() {
  core_.loop().Cancel(timer_);
  core_.loop().Cancel(grace_timer_);
  state_ = State::kOpen;
  connection_->set_body_bytes_max(kPayloadBytesMax);
  // Without a secret: what the dialler gave must not be sent around, and to echo it proves nothing.
  const auto welcome = core_.HelloTo(hello_.from, "");
  (void)connection_->Send(transport_wire::kWelcome, Payload(transport_wire::EncodeHello(welcome)));
  if (path_ == Path::kUnix && core_.fast_lane() != nullptr) SendBells();
}

void IncomingLink::SendBells() {
  auto bells = core_.fast_lane()->Bells();
  if (!bells.ok()) {
    LogWarn("no fast ring from worker {}: {}", hello_.from.value, std::string(bells.status().message()));
    return;
  }
  FramedConnection::SendOptions options;
  options.fds.push_back(std::move(bells->loop));
  options.fds.push_back(std::move(bells->sleeper));
  (void)connection_->Send(transport_wire::kBells, Payload(), std::move(options));
}

void IncomingLink::Refuse(const absl::Status& why) {
  state_ = State::kEnded;
  core_.CountRefused();
  const std::string reason(why.message());
  LogWarn("hello of worker {} refused, {}", hello_.from.value, reason);
  (void)connection_->Send(transport_wire::kRefused, Payload(reason.substr(0, 1024)));
  connection_->CloseWhenWritten(why);
}

void IncomingLink::Leave() {
  goodbye_ = true;
  (void)connection_->Send(transport_wire::kGoodbye, Payload());
  connection_->WriteInline();
  connection_->Close();
}

std::shared_ptr<char> IncomingLink::AllocateBody(uint32_t type, size_t size) {
  if (state_ != State::kOpen) return nullptr;
  if (type == transport_wire::kMessage && size < sizeof(MessageHeader) + Fabric::kLargeBytes) {
    return AllocateBytes(size);
  }
  if (type == transport_wire::kMessageBody && partial_.has_value() && partial_->have == 0 && partial_->size == size) {
    return partial_->memory;
  }
  return nullptr;
}

absl::Status IncomingLink::OnMessageFrame(Frame& frame) {
  const std::string_view body = frame.body.view();
  if (partial_.has_value() && frame.type != transport_wire::kMessageBody && frame.type != transport_wire::kRingChunk &&
      frame.type != transport_wire::kFastRing && frame.type != transport_wire::kGoodbye) {
    return Unexpected("another message inside of a message");
  }
  switch (frame.type) {
    case transport_wire::kMessage:
      return OnMessage(frame);
    case transport_wire::kMessageHead:
      return OnMessageHead(body);
    case transport_wire::kMessageBody:
      return OnMessageBody(std::move(frame.body));
    case transport_wire::kRing:
      return OnRing(frame);
    case transport_wire::kFastRing:
      return OnFastRing(frame);
    case transport_wire::kRingMessage:
      return OnRingMessage(body);
    case transport_wire::kRingChunk:
      return OnRingChunk(body);
    case transport_wire::kGoodbye:
      goodbye_ = true;
      return absl::OkStatus();
    default:
      return Unexpected(fmt::format("a frame of type {}", frame.type));
  }
}

absl::Status IncomingLink::OnMessage(Frame& frame) {
  MessageHeader header;
  const std::string_view body = frame.body.view();
  if (body.size() < sizeof(header)) return Unexpected("a message without a header");
  FromBytes(body.substr(0, sizeof(header)), header);
  const size_t size = body.size() - sizeof(header);
  if (!frame.body.owned()) {
    core_.Deliver(hello_.from, header, ReceivedBytes(body.substr(sizeof(header))), path_);
    return absl::OkStatus();
  }
  std::shared_ptr<char> memory = std::move(frame.body).Take();
  char* payload = memory.get() + sizeof(header);  // still aligned to 64
  static_assert(sizeof(MessageHeader) == 64);
  core_.Deliver(hello_.from, header, ReceivedBytes(std::shared_ptr<char>(std::move(memory), payload), size), path_);
  return absl::OkStatus();
}

absl::Status IncomingLink::OnMessageHead(std::string_view body) {
  transport_wire::MessageHead head;
  if (!FromBytes(body, head)) return Unexpected("a malformed head of a message");
  if (head.payload_bytes < Fabric::kLargeBytes || head.payload_bytes > kPayloadBytesMax) {
    return Unexpected(fmt::format("a message of an impossible {} bytes", head.payload_bytes));
  }
  Partial partial{head.header, AllocateBytes(head.payload_bytes), head.payload_bytes};
  if (partial.memory == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("there is no memory for its message of {} bytes", head.payload_bytes));
  }
  partial_ = std::move(partial);
  return absl::OkStatus();
}

absl::Status IncomingLink::OnMessageBody(ReceivedBytes body) {
  if (!partial_.has_value() || partial_->have != 0 || body.size() != partial_->size) {
    return Unexpected("a payload without its head");
  }
  Partial done = *std::exchange(partial_, std::nullopt);
  core_.Deliver(hello_.from, done.header, std::move(body), path_);
  return absl::OkStatus();
}

absl::Status IncomingLink::OnRing(Frame& frame) {
  if (path_ != Path::kUnix || ring_ != nullptr || frame.fds.size() != 1) {
    return Unexpected("a ring where none is expected");
  }
  ASSIGN_OR_RETURN(ring_, RingReader::Open(std::move(frame.fds[0])));
  return absl::OkStatus();
}

absl::Status IncomingLink::OnFastRing(Frame& frame) {
  if (path_ != Path::kUnix || fast_ != nullptr || frame.fds.size() != 1) {
    return Unexpected("a fast ring where none is expected");
  }
  ASSIGN_OR_RETURN(auto ring, FastRingReader::Open(std::move(frame.fds[0])));
  fast_ = std::make_shared<FastLane::Source>();
  fast_->from = hello_.from;
  fast_->ring = std::move(ring);
  fast_->failed = [poster = core_.loop().poster(), connection = std::weak_ptr(connection_)](absl::Status why) {
    poster.Post([connection, why = std::move(why)] {
      if (auto open = connection.lock()) open->Close(why);
    });
  };
  core_.fast_lane()->Add(fast_);
  return absl::OkStatus();
}

absl::Status IncomingLink::OnRingMessage(std::string_view body) {
  transport_wire::RingMessage message;
  if (ring_ == nullptr || !FromBytes(body, message)) return Unexpected("a malformed ring message");
  ASSIGN_OR_RETURN(const std::string_view payload, ring_->At(message.place));
  core_.Deliver(hello_.from, message.header, ReceivedBytes(payload), Path::kShm);
  ReleaseRing(message.place);
  return absl::OkStatus();
}

absl::Status IncomingLink::OnRingChunk(std::string_view body) {
  transport_wire::RingPlace place;
  if (ring_ == nullptr || !partial_.has_value() || !FromBytes(body, place)) {
    return Unexpected("a malformed ring chunk");
  }
  ASSIGN_OR_RETURN(const std::string_view chunk, ring_->At(place));
  if (chunk.empty() || chunk.size() > partial_->size - partial_->have) {
    return Unexpected("more of a message than it has");
  }
  memcpy(partial_->memory.get() + partial_->have, chunk.data(), chunk.size());
  partial_->have += chunk.size();
  ReleaseRing(place);
  if (partial_->have < partial_->size) return absl::OkStatus();
  Partial done = *std::exchange(partial_, std::nullopt);
  core_.Deliver(hello_.from, done.header, ReceivedBytes(std::move(done.memory), done.size), Path::kShm);
  return absl::OkStatus();
}

void IncomingLink::ReleaseRing(const transport_wire::RingPlace& place) {
  if (ring_->Release(place)) (void)connection_->Send(transport_wire::kRingFree, Payload());
}

}  // namespace switchtower
