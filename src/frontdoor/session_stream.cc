#include "frontdoor/session_stream.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/heap.h"
#include "base/log.h"
#include "frontdoor/grpc_status.h"

namespace switchtower {
namespace {

// The client keeps a thread for each upload under way, so it mustn't get far ahead of them.
constexpr size_t kAwaitedUploadsMax = 64;
// For answers that nobody waits for. A timer of gRPC's costs several wake-ups, so it must be rare beside the launches.
constexpr std::chrono::milliseconds kHoldBack{100};
// Answers of a session's home that are read before the client has taken those before.
constexpr size_t kUnwrittenMax = 64;

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

}  // namespace

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

void SessionStream::StartReadLocked() {
  if (ending_.has_value() || finished_) return;
  reading_ = std::make_unique<IfrtRequest>();
  StartRead(reading_.get());
}

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    Leave(absl::CancelledError("client has ended its session"), grpc::Status::OK);
    return;
  }
  const size_t bytes = reading_->ByteSizeLong();
  auto self = shared_from_this();
  std::shared_ptr<IfrtRequest> request = std::move(reading_);
  Strand::Claim claim;
  {
    MutexLock lock(mutex_);
    const bool more = gate_.OnRead(bytes);
    // Before the next read begins, so that requests keep their order.
    claim = strand_.PostOrClaim([self, request, bytes] { self->HandleOne(*request, bytes); });
    if (more) StartReadLocked();
  }
  // Here rather than on a thread that would have to be woken: most requests take less than that.
  if (claim == Strand::Claim::kClaimed) strand_.RunClaimed();
}

void SessionStream::HandleOne(IfrtRequest& request, size_t bytes) {
  if (!refusal_.ok()) {
    const RequestContext context{request.request_metadata().op_id(), request.request_metadata().user_context_id()};
    Replier(weak_from_this(), context, std::make_shared<UserContextTable>()).Fail(refusal_);
    Leave(refusal_, ToGrpc(refusal_));
    return;
  }
  if (relayed_) {
    return relay()->Forward(std::move(request), [weak = weak_from_this(), bytes] {
      if (auto self = weak.lock()) self->Handled(bytes);
    });
  }
  if (client_ == nullptr) return;  // ended before this request's turn
  if (door_.trace != nullptr && door_.trace->on()) {
    HandleTraced(request);
  } else {
    client_->Handle(request, weak_from_this());
  }
  HandledHere(bytes);
}

void SessionStream::HandledHere(size_t bytes) {
  Session& session = client_->session();
  HostBufferStore& buffers = *client_->state().buffers;
  bool launches = false, uploads = false;
  {
    MutexLock lock(mutex_);
    launches = session.launches_in_flight() >= door_.launches_in_flight_max && gate_.Place(ReadGate::Hold::kLaunches);
    uploads = buffers.awaited() >= kAwaitedUploadsMax && gate_.Place(ReadGate::Hold::kUploads);
    if (gate_.OnHandled(bytes)) StartReadLocked();
  }
  if (launches) session.WhenBelow(door_.launches_in_flight_max, Release(ReadGate::Hold::kLaunches));
  if (uploads) buffers.WhenFewerAwaited(kAwaitedUploadsMax, Release(ReadGate::Hold::kUploads));
}

absl::AnyInvocable<void()> SessionStream::Release(ReadGate::Hold hold) {
  return [weak = weak_from_this(), hold] {
    if (auto self = weak.lock()) {
      MutexLock lock(self->mutex_);
      if (self->gate_.OnRelease(hold)) self->StartReadLocked();
    }
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
  MutexLock lock(mutex_);
  if (gate_.OnHandled(bytes)) StartReadLocked();
}

std::shared_ptr<SessionRelay> SessionStream::relay() {
  MutexLock lock(mutex_);
  return relay_;
}

bool SessionStream::HasRoom() {
  MutexLock lock(mutex_);
  return answers_.due_count() < kUnwrittenMax;
}

void SessionStream::Send(IfrtResponse response) {
  MutexLock lock(mutex_);
  if (broken_ || finished_) return;
  answers_.Push(std::move(response));
  if (relay_ != nullptr) answers_.Release();  // the home has held it back
  WriteOnLocked();
}

void SessionStream::WriteOnLocked() {
  if (writing_) return;
  if (answers_.due()) {
    StartWriteLocked();
  } else if (answers_.holds_back()) {
    ReleaseLaterLocked();
  }
}

void SessionStream::ReleaseLaterLocked() {
  if (std::exchange(alarm_set_, true)) return;
  // A new one each time: the callback of the last one may be about to return.
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(std::chrono::system_clock::now() + kHoldBack, [weak = weak_from_this()](bool) {
    auto self = weak.lock();
    if (self == nullptr) return;
    MutexLock lock(self->mutex_);
    self->alarm_set_ = false;
    if (self->finished_) return;
    self->answers_.Release();
    self->WriteOnLocked();
  });
}

void SessionStream::StartWriteLocked() {
  writing_ = true;
  answer_ = answers_.Take();
  // More to come: let gRPC gather. The first write must go out by itself (gRPC holds back the initial metadata,
  // and with it the write, otherwise), and so must the last of a burst.
  grpc::WriteOptions options;
  if (std::exchange(wrote_, true) && answers_.due()) options.set_buffer_hint();
  StartWrite(&answer_, options);
}

void SessionStream::OnWriteDone(bool ok) {
  auto self = shared_from_this();  // finishing may let OnDone run before this returns
  std::shared_ptr<SessionRelay> relay;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) {
      broken_ = true;
      answers_.Clear();
    }
    WriteOnLocked();
    if (writing_) return;
    relay = relay_;
    FinishIfIdleLocked();
  }
  if (relay != nullptr) relay->OnDrained();
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
  MutexLock lock(mutex_);
  if (gate_.OnReleaseAll()) StartReadLocked();
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
  door_.registry.RemoveBuffers(id);
  client_.reset();
}

void SessionStream::End(grpc::Status status) {
  MutexLock lock(mutex_);
  if (ending_.has_value()) return;
  ending_ = std::move(status);
  answers_.Release();
  WriteOnLocked();
  FinishIfIdleLocked();
}

void SessionStream::FinishIfIdleLocked() {
  if (!ending_.has_value() || finished_ || writing_) return;
  finished_ = true;
  Finish(*ending_);
}

void SessionStream::OnDone() {
  // Holders of weak references may still come by; the object goes when the last of them is through.
  auto self = std::move(self_);
}

}  // namespace switchtower
