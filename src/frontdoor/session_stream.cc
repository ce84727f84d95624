#include "frontdoor/session_stream.h"

#include <utility>

#include <fmt/format.h>

#include "base/heap.h"
#include "base/log.h"
#include "frontdoor/grpc_status.h"
#include "frontdoor/new_arrays.h"
#include "google/protobuf/arena.h"

namespace switchtower {
namespace {

// The client keeps a thread for each upload under way, so it mustn't get far ahead of them.
constexpr size_t kAwaitedUploadsMax = 64;
// Of most requests, as they are in memory.
constexpr size_t kRequestBytes = 2048;
constexpr size_t kSpareMax = 8;
// That a thread of gRPC's handles before it goes back to its sockets, of what others have read meanwhile.
constexpr int kRequestsHere = 64;

// "loaded_executable_execute"
std::string KindOf(const IfrtRequest& request) {
  static const auto* kinds = IfrtRequest::descriptor()->FindOneofByName("request");
  const auto* kind = request.GetReflection()->GetOneofFieldDescriptor(request, kinds);
  if (kind == nullptr) return "unknown";
  static constexpr std::string_view kSuffix = "_request";
  const std::string& name = kind->name();
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
}

// Of those that the client chose the handle of.
ArrayId FirstArrayOf(const IfrtRequest& request) {
  if (request.has_loaded_executable_execute_request()) {
    const auto& results = request.loaded_executable_execute_request().result_array_handle();
    return results.empty() ? ArrayId{} : ArrayId{results[0]};
  }
  if (request.has_make_array_from_host_buffer_request()) {
    return ArrayId{request.make_array_from_host_buffer_request().array_handle()};
  }
  return ArrayId{};
}

// The client sends the next request without an answer to this one. To an executable's first execution it needs it.
bool GoesOn(const IfrtRequest& request) {
  switch (request.request_case()) {
    case IfrtRequest::kDestructArrayRequest:
      return true;
    case IfrtRequest::kLoadedExecutableExecuteRequest:
      return !request.loaded_executable_execute_request().result_array_handle().empty();
    default:
      return MakesArrays(request);
  }
}

}  // namespace

struct SessionStream::Incoming {
  char block[kRequestBytes];
  google::protobuf::Arena arena{block, sizeof(block)};
  IfrtRequest* message = google::protobuf::Arena::CreateMessage<IfrtRequest>(&arena);
  size_t bytes = 0;
  std::shared_ptr<SessionStream> stream;  // that it came by, while it waits for its turn

  void Clear() {
    arena.Reset();
    message = google::protobuf::Arena::CreateMessage<IfrtRequest>(&arena);
  }
};

SessionStream::SessionStream(DoorContext& door) : door_(door), strand_(door.pool) {}

SessionStream::~SessionStream() {
  strand_.Stop();
  door_.registry.RemoveStream();
}

SessionStream* SessionStream::Create(DoorContext& door, grpc::CallbackServerContext* context) {
  // Deleted elsewhere: the last holder may be a task of the strand, which can't wait for itself.
  std::shared_ptr<SessionStream> stream(new SessionStream(door), [&door](SessionStream* stream) {
    door.reaper.Post([stream] {
      delete stream;
      TrimHeap();
    });
  });
  stream->self_ = stream;
  stream->Open(context);
  return stream.get();
}

void SessionStream::ReadOnLocked(Beginning& beginning) {
  if (ending_.has_value() || finished_) return;
  if (spare_.empty()) {
    reading_ = std::make_unique<Incoming>();
  } else {
    reading_ = std::move(spare_.back());
    spare_.pop_back();
  }
  beginning.read = true;
  ++beginning_;
}

void SessionStream::Begin(const Beginning& beginning) {
  if (!beginning.read && !beginning.write) return;
  if (beginning.read) StartRead(reading_->message);
  if (beginning.write) StartWrite(&answer_, write_options_);
  MutexLock lock(mutex_);
  beginning_ -= beginning.read + beginning.write;
  FinishIfIdleLocked();
}

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    Leave(absl::CancelledError("client has ended its session"), grpc::Status::OK);
    return;
  }
  if (socket_ != nullptr) socket_->OnRequest(GoesOn(*reading_->message), ClientSocket::Clock::now());
  auto self = shared_from_this();
  std::unique_ptr<Incoming> incoming = std::move(reading_);
  incoming->bytes = incoming->message->ByteSizeLong();
  incoming->stream = self;
  Strand::Claim claim;
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    const bool more = gate_.OnRead(incoming->bytes);
    // Before the next read begins, so that requests keep their order.
    claim = strand_.PostOrClaim([incoming = std::move(incoming)]() mutable {
      auto stream = std::move(incoming->stream);
      stream->HandleOne(std::move(incoming));
    });
    if (more) ReadOnLocked(beginning);
  }
  Begin(beginning);
  // Here rather than on a thread that would have to be woken: most requests take less than that.
  if (claim == Strand::Claim::kClaimed) strand_.RunClaimed(kRequestsHere);
}

void SessionStream::HandleOne(std::unique_ptr<Incoming> incoming) {
  IfrtRequest& request = *incoming->message;
  if (!refusal_.ok()) {
    const RequestContext context{request.request_metadata().op_id(), request.request_metadata().user_context_id()};
    Replier(weak_from_this(), context, std::make_shared<UserContextTable>()).Fail(refusal_);
    Leave(refusal_, ToGrpc(refusal_));
    return;
  }
  if (relayed_) {
    return relay()->Forward(std::move(request), [weak = weak_from_this(), bytes = incoming->bytes] {
      if (auto self = weak.lock()) self->Handled(bytes);
    });
  }
  if (client_ == nullptr) return;  // ended before this request's turn
  if (door_.trace != nullptr && door_.trace->on()) {
    HandleTraced(request);
  } else {
    client_->Handle(request, weak_from_this());
  }
  HandledHere(std::move(incoming));
}

void SessionStream::HandledHere(std::unique_ptr<Incoming> incoming) {
  incoming->Clear();
  Session& session = client_->session();
  HostBufferStore& buffers = *client_->state().buffers;
  bool launches = false, uploads = false, downloads = false;
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    launches = session.under_way() >= door_.launches_in_flight_max && gate_.Place(ReadGate::Hold::kLaunches);
    uploads = buffers.awaited() >= kAwaitedUploadsMax && gate_.Place(ReadGate::Hold::kUploads);
    downloads = buffers.room().full() && gate_.Place(ReadGate::Hold::kDownloads);
    if (answers_.bytes() >= door_.unread_answer_bytes_max) gate_.Place(ReadGate::Hold::kAnswers);
    const bool read_on = gate_.OnHandled(incoming->bytes);
    if (spare_.size() < kSpareMax) spare_.push_back(std::move(incoming));
    if (read_on) ReadOnLocked(beginning);
  }
  Begin(beginning);
  if (launches) session.WhenBelow(door_.launches_in_flight_max, Release(ReadGate::Hold::kLaunches));
  if (uploads) buffers.WhenFewerAwaited(kAwaitedUploadsMax, Release(ReadGate::Hold::kUploads));
  if (downloads) buffers.room().WhenNotFull(Release(ReadGate::Hold::kDownloads));
}

absl::AnyInvocable<void()> SessionStream::Release(ReadGate::Hold hold) {
  return [weak = weak_from_this(), hold] {
    auto self = weak.lock();
    if (self == nullptr) return;
    Beginning beginning;
    {
      MutexLock lock(self->mutex_);
      if (self->gate_.OnRelease(hold)) self->ReadOnLocked(beginning);
    }
    self->Begin(beginning);
  };
}

void SessionStream::HandleTraced(IfrtRequest& request) {
  TraceSpan span;
  span.name = KindOf(request);
  span.session = client_->session().description().id;
  span.first_array = FirstArrayOf(request);
  span.begin_ns = UnixNanoseconds();
  client_->Handle(request, weak_from_this());
  span.end_ns = UnixNanoseconds();
  door_.trace->Add(std::move(span));
}

void SessionStream::Handled(size_t bytes) {
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    if (gate_.OnHandled(bytes)) ReadOnLocked(beginning);
  }
  Begin(beginning);
}

std::shared_ptr<SessionRelay> SessionStream::relay() {
  MutexLock lock(mutex_);
  return relay_;
}

void SessionStream::OnCancel() { Leave(absl::CancelledError("client has left"), grpc::Status::OK); }

void SessionStream::EndOwnSession(const absl::Status& why) {
  strand_.Post([self = shared_from_this(), why] {
    if (self->client_ != nullptr) self->EndSession(why);
  });
}

void SessionStream::Stop() {
  const absl::Status why = absl::UnavailableError("the server is stopping");
  Leave(why, ToGrpc(why));
}

void SessionStream::Leave(absl::Status reason, grpc::Status status) {
  if (left_.exchange(true)) return;
  auto self = shared_from_this();
  strand_.Post([self, reason, status] {
    self->CloseSession(reason);
    self->End(status);
  });
}

void SessionStream::EndSession(const absl::Status& why) {
  if (left_) return;
  LogWarn("client {}: {}", request_.peer, std::string(why.message()));
  CloseSession(why);
  refusal_ = why;
  Beginning beginning;
  {
    MutexLock lock(mutex_);
    if (gate_.OnReleaseAll()) ReadOnLocked(beginning);
  }
  Begin(beginning);
}

void SessionStream::CloseSession(const absl::Status& reason) {
  if (std::exchange(relayed_, false)) {
    std::shared_ptr<SessionRelay> relay;
    {
      MutexLock lock(mutex_);
      relay = std::move(relay_);
    }
    relay->Cancel();
    door_.relays.Remove(relayed_session_);
    door_.agent_relay.Drop(relayed_session_);
  }
  if (client_ == nullptr) return;
  const uint64_t id = client_->session().description().id.value;
  const ClientSession::Counts left = client_->counts();
  LogInfo("session {} ends: {}; its client left {} host buffers, {} futures, {} user contexts of {} arrays", id,
          std::string(reason.message()), left.buffers, left.futures, left.user_contexts, left.arrays);
  client_->Close(reason);
  desk_->Close(reason);
  door_.agents.Remove(SessionId{id});
  door_.registry.RemoveBuffers(client_->state().buffers->key());
  client_.reset();
}

void SessionStream::OnDone() {
  // Holders of weak references may still come by; the object goes when the last of them is through.
  auto self = std::move(self_);
  if (socket_ != nullptr) socket_->RemoveSession();
}

}  // namespace switchtower
