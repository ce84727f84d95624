// The beginning of a session: here, at its slices' home, or with a refusal that the client's first request hears.
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "frontdoor/grpc_status.h"
#include "frontdoor/metadata_keys.h"
#include "frontdoor/session_stream.h"
#include "types/home_door.h"
#include "wire/ifrt/attributes.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.pb.h"

namespace switchtower {
namespace {

constexpr std::chrono::milliseconds kAskAgainAfter(500);

// Empty if there is none.
std::string Metadata(const grpc::CallbackServerContext& context, const char* key) {
  auto it = context.client_metadata().find(key);
  return it == context.client_metadata().end() ? std::string() : std::string(it->second.data(), it->second.size());
}

absl::StatusOr<xla::ifrt::proxy::GrpcIfrtSessionMetadata> ParseMetadata(const grpc::CallbackServerContext& context) {
  const std::string bytes = Metadata(context, kSessionMetadataKey);
  xla::ifrt::proxy::GrpcIfrtSessionMetadata metadata;
  if (bytes.empty() || !metadata.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("the stream came without readable IFRT session metadata");
  }
  return metadata;
}

}  // namespace

void SessionStream::Open(grpc::CallbackServerContext* context) {
  context_ = context;
  absl::Status status = door_.registry.AddStream(weak_from_this());
  auto metadata = status.ok() ? ParseMetadata(*context) : status;
  if (metadata.ok()) {
    version_ = {metadata->version().protocol_version(), metadata->version().ifrt_serdes_version_number()};
    status = CheckVersion(version_);
  } else {
    status = metadata.status();
  }
  if (!status.ok()) {
    Leave(status, ToGrpc(status));
    return;
  }
  request_.peer = context->peer();
  if (auto client = Metadata(*context, kRelayedForKey); !client.empty()) {
    relayed_here_ = true;
    request_.peer = fmt::format("{} by way of the proxy {}", client, request_.peer);
  } else if (socket_ = door_.sockets.Find(request_.peer); socket_ != nullptr) {
    socket_->AddSession();
  }
  request_.virtual_slices = StringAttribute(metadata->initialization_data(), "virtual_slices").value_or("");
  request_.weight = TextAttribute(metadata->initialization_data(), "weight").value_or("");
  request_.priority = TextAttribute(metadata->initialization_data(), "priority").value_or("");
  LogInfo("client {} opens a session, protocol {}.{}", request_.peer, version_.protocol, version_.serdes);
  AskForSession();
}

void SessionStream::AskForSession() {
  // Weak: a session that waits for a lease doesn't hold a stream whose client gave up.
  door_.controller.OpenSession(
      request_, [weak = weak_from_this()](absl::StatusOr<std::unique_ptr<Session>> session) mutable {
        auto self = weak.lock();
        auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<Session>>>(std::move(session));
        if (self == nullptr || !self->strand_.Post([self, shared] { self->Opened(std::move(*shared)); })) {
          if (shared->ok()) (**shared)->Close(absl::CancelledError("client left before its session opened"));
        }
      });
}

void SessionStream::Opened(absl::StatusOr<std::unique_ptr<Session>> session) {
  if (left_) {
    if (session.ok()) (*session)->Close(absl::CancelledError("client left before its session opened"));
    return;
  }
  if (!session.ok()) {
    if (auto home = HomeDoorOf(session.status())) return OpenElsewhere(*home);
    return Refuse(session.status());
  }
  const uint64_t id = (*session)->description().id.value;
  auto buffers = std::make_shared<HostBufferStore>(door_.waiting_upload_bytes_max,
                                                   std::make_shared<DownloadRoom>(door_.download_bytes_max));
  const uint64_t key = buffers->key();
  door_.registry.AddBuffers(buffers);
  desk_ = door_.agents.Open(SessionId{id}, (*session)->MemorySource());
  (*session)->ServeCalls(desk_);
  client_ = std::make_unique<ClientSession>(*std::move(session), version_, std::move(buffers), desk_->token());
  LogInfo("session {} open, {} devices", id, client_->session().description().devices.size());
  BeginReading(id, key);
}

void SessionStream::OpenElsewhere(const std::string& home) {
  if (relayed_here_) {
    // Whoever brought the client asks the resource manager anew.
    const absl::Status status =
        absl::FailedPreconditionError(fmt::format("it isn't the home any more, the proxy at {} is", home));
    return Leave(status, ToGrpc(status));
  }
  auto door = HomeDoor::Create(home);
  if (!door.ok()) return Refuse(door.status());
  LogInfo("client {} is relayed to the proxy at {}, home of the shared slices", request_.peer, home);
  relayed_ = true;
  auto relay = SessionRelay::Start(*std::move(door), Metadata(*context_, kSessionMetadataKey), request_.peer,
                                   std::weak_ptr<RelayedStream>(shared_from_this()));
  MutexLock lock(mutex_);
  relay_ = std::move(relay);
}

void SessionStream::RelayOpened(uint64_t session, uint64_t buffers) {
  strand_.Post([self = shared_from_this(), session, buffers] { self->OpenedElsewhere(session, buffers); });
}

void SessionStream::OpenedElsewhere(uint64_t session, uint64_t buffers) {
  const std::shared_ptr<SessionRelay> relay = this->relay();
  if (relay == nullptr) return;  // the client has left
  if (session != 0) {
    // Host buffers and agents come to a session by these, so a home can't take another's.
    if (door_.agents.Knows(SessionId{session}) || door_.registry.FindBuffers(buffers).ok() ||
        !door_.relays.Add(session, buffers, request_.peer, relay->home())) {
      const absl::Status why = absl::InternalError(fmt::format(
          "the proxy at {} opened a session under the number of another, {:016x}", relay->home()->name, session));
      CloseSession(why);
      return Refuse(why);
    }
    relayed_session_ = session;
  }
  BeginReading();
}

void SessionStream::RelayEnded(bool opened, absl::Status why) {
  strand_.Post([self = shared_from_this(), opened, why = std::move(why)] { self->EndedElsewhere(opened, why); });
}

void SessionStream::EndedElsewhere(bool opened, const absl::Status& why) {
  if (!relayed_) return;
  if (opened) return EndSession(why);
  CloseSession(why);
  if (left_) return;
  if (!std::exchange(asked_again_, true)) return AskAgain();
  Refuse(why);
}

void SessionStream::AskAgain() {
  // The home may just have changed; the resource manager is given a moment to see it.
  door_.loop.Post([weak = weak_from_this(), &loop = door_.loop] {
    loop.RunAfter(kAskAgainAfter, [weak] {
      if (auto self = weak.lock()) self->AskForSession();
    });
  });
}

void SessionStream::Refuse(const absl::Status& why) {
  // The client shows its user what its first request got; of the stream's own end it keeps only "cancelled".
  LogWarn("client {} gets no session: {}", request_.peer, std::string(why.message()));
  refusal_ = why;
  BeginReading();
}

void SessionStream::BeginReading(uint64_t session, uint64_t buffers) {
  if (relayed_here_) {
    context_->AddInitialMetadata(kRelayedSessionKey, std::to_string(session));
    context_->AddInitialMetadata(kRelayedBuffersKey, std::to_string(buffers));
    StartSendInitialMetadata();
  }
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    ReadOnLocked(beginning);
  }
  Begin(beginning);
}

}  // namespace switchtower
