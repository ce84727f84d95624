// The stream of one session: reads requests, hands them to the session's strand, writes the answers.
//
// Place:    frontdoor; the only code that touches the bidirectional stream.
// Threads:  gRPC's callbacks and Send on any thread; the ClientSession lives on the strand.
// Lifetime: gRPC holds the stream until OnDone, tasks and callbacks hold it longer. It is destroyed on the
//           reaper's thread, never on its own strand.
// Errors:   a client that leaves (cancels) is the normal end.
// Invariants: T-1 at most one read and one write under way; none begins after Finish.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "base/strand.h"
#include "controller/api/trace.h"
#include "frontdoor/agent_server.h"
#include "frontdoor/client_session.h"
#include "frontdoor/read_gate.h"
#include "frontdoor/replier.h"
#include "frontdoor/session_registry.h"

namespace switchtower {

// What streams need of their server; outlives them.
struct DoorContext {
  Controller& controller;
  SessionRegistry& registry;
  AgentServer& agents;
  ThreadPool& pool;
  ThreadPool& reaper;  // destroys streams
  ThreadPool& files;   // reads uploads from disk
  const size_t launches_in_flight_max;
  const int64_t waiting_upload_bytes_max;
  const std::string shared_upload_dir;
  const int protocol_max;
  TraceRecorder* const trace;  // may be null
};

class SessionStream final : public grpc::ServerBidiReactor<IfrtRequest, IfrtResponse>,
                            public ReplySink,
                            public StoppableStream,
                            public std::enable_shared_from_this<SessionStream> {
 public:
  // For gRPC; already under way.
  static SessionStream* Create(DoorContext& door, grpc::CallbackServerContext* context);
  ~SessionStream() override;

  void Send(IfrtResponse response) override EXCLUDES(mutex_);
  // The server stops.
  void Stop() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override EXCLUDES(mutex_);
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit SessionStream(DoorContext& door);
  void Open(grpc::CallbackServerContext* context);
  // On the strand.
  void Opened(absl::StatusOr<std::unique_ptr<Session>> session);
  void HandleOne(IfrtRequest& request, size_t bytes);
  void HandleTraced(IfrtRequest& request);
  void CloseSession(const absl::Status& reason);

  // Ends the session, then the stream with `status`. Once.
  void Leave(absl::Status reason, grpc::Status status);
  void StartReadLocked() REQUIRES(mutex_);
  void StartWriteLocked() REQUIRES(mutex_);
  // What nobody waits for goes with what somebody does, or a little later.
  void WriteLaterLocked() REQUIRES(mutex_);
  // Finishes when the writes under way are done.
  void End(grpc::Status status) EXCLUDES(mutex_);
  void FinishIfIdleLocked() REQUIRES(mutex_);

  DoorContext& door_;
  ProxyVersion version_;
  std::shared_ptr<SessionStream> self_;  // until OnDone
  std::atomic<bool> left_ = false;

  // On the strand. Either one or the other, once the controller has answered.
  std::unique_ptr<ClientSession> client_;
  absl::Status refusal_;
  std::shared_ptr<AgentDesk> desk_;

  Mutex mutex_;
  ReadGate gate_ GUARDED_BY(mutex_){ReadGate::Limits{}};
  std::unique_ptr<IfrtRequest> reading_;                // belongs to gRPC between StartRead and OnReadDone
  std::deque<IfrtResponse> writes_ GUARDED_BY(mutex_);  // the front one is under way
  bool writing_ GUARDED_BY(mutex_) = false;
  bool wrote_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::Alarm> alarm_ GUARDED_BY(mutex_);
  bool alarm_set_ GUARDED_BY(mutex_) = false;
  bool broken_ GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> ending_ GUARDED_BY(mutex_);
  bool finished_ GUARDED_BY(mutex_) = false;

  Strand strand_;  // last: its destructor waits for tasks that use the rest
};

}  // namespace switchtower
