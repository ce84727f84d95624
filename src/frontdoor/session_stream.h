// The stream of one session: reads requests, hands them to the session's strand, writes the answers.
//
// Place:    frontdoor; the only code that touches the bidirectional stream.
// Threads:  gRPC's callbacks and Send on any thread; the ClientSession lives on the strand.
// Lifetime: gRPC holds the stream until OnDone, tasks and callbacks hold it longer. It is destroyed on the
//           reaper's thread, never on its own strand.
// Errors:   a client that leaves (cancels) is the normal end. A session whose slices have their home at another proxy
//           is relayed there; when that can't be, or ends, the client's next request is answered with the reason.
// Invariants: T-1 at most one read and one write under way; none begins after Finish.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/strand.h"
#include "controller/api/trace.h"
#include "frontdoor/agent_relay.h"
#include "frontdoor/agent_server.h"
#include "frontdoor/answer_queue.h"
#include "frontdoor/client_session.h"
#include "frontdoor/client_sockets.h"
#include "frontdoor/read_gate.h"
#include "frontdoor/relay_table.h"
#include "frontdoor/replier.h"
#include "frontdoor/session_registry.h"
#include "frontdoor/session_relay.h"

namespace switchtower {

// What streams need of their server; outlives them.
struct DoorContext {
  Controller& controller;
  SessionRegistry& registry;
  EventLoop& loop;
  AgentServer& agents;
  RelayTable& relays;
  AgentRelay& agent_relay;
  ClientSockets& sockets;
  ThreadPool& pool;
  ThreadPool& reaper;  // destroys streams
  ThreadPool& files;   // reads uploads from disk
  const size_t launches_in_flight_max;
  const int64_t waiting_upload_bytes_max;
  const int64_t download_bytes_max;
  const size_t unread_answer_bytes_max;
  const std::string shared_upload_dir;
  const int protocol_max;
  TraceRecorder* const trace;  // may be null
};

class SessionStream final : public grpc::ServerBidiReactor<IfrtRequest, IfrtResponse>,
                            public RelayedStream,
                            public StoppableStream,
                            public std::enable_shared_from_this<SessionStream> {
 public:
  // For gRPC; already under way.
  static SessionStream* Create(DoorContext& door, grpc::CallbackServerContext* context);
  ~SessionStream() override;

  void Send(IfrtResponse response) override EXCLUDES(mutex_);
  bool HasRoom() override EXCLUDES(mutex_);
  void RelayOpened(uint64_t session, uint64_t buffers) override;
  void RelayEnded(bool opened, absl::Status why) override;
  void Stop() override;
  void EndOwnSession(const absl::Status& why) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override EXCLUDES(mutex_);
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit SessionStream(DoorContext& door);
  // The beginning (session_stream_open.cc).
  void Open(grpc::CallbackServerContext* context);
  // Asks the controller, which answers to Opened.
  void AskForSession();
  // On the strand.
  void Opened(absl::StatusOr<std::unique_ptr<Session>> session);
  void OpenElsewhere(const std::string& home);
  void OpenedElsewhere(uint64_t session, uint64_t buffers);
  void EndedElsewhere(bool opened, const absl::Status& why);
  void AskAgain();
  void Refuse(const absl::Status& why);
  // Tells the proxy that relays this stream of its session and the key of its host buffers, and begins to read.
  void BeginReading(uint64_t session = 0, uint64_t buffers = 0);
  // A request in memory of its own, which serves for others later: parts of a small one aren't allocated one by one.
  struct Incoming;
  void HandleOne(std::unique_ptr<Incoming> incoming);
  void HandleTraced(IfrtRequest& request);
  // Its client hears of it with the answer to what it asks next.
  void EndSession(const absl::Status& why);
  void CloseSession(const absl::Status& reason);
  // After each request of a session of this door, on the strand: reads on, or holds while there is enough to wait for.
  void HandledHere(std::unique_ptr<Incoming> incoming) EXCLUDES(mutex_);
  absl::AnyInvocable<void()> Release(ReadGate::Hold hold);
  // After each request that was forwarded.
  void Handled(size_t bytes) EXCLUDES(mutex_);
  std::shared_ptr<SessionRelay> relay() EXCLUDES(mutex_);

  // Ends the session, then the stream with `status`. Once.
  void Leave(absl::Status reason, grpc::Status status);
  // What gRPC is asked for as soon as mutex_ is free: it may wake another of its threads for that, which wants mutex_.
  struct Beginning {
    bool read = false;
    bool write = false;
  };
  void ReadOnLocked(Beginning& beginning) REQUIRES(mutex_);
  // The next write, if none is under way; if nothing is due, sees to it that what is held back will be.
  void WriteOnLocked(Beginning& beginning) REQUIRES(mutex_);
  void ReleaseLaterLocked() REQUIRES(mutex_);
  void Begin(const Beginning& beginning) EXCLUDES(mutex_);
  // Finishes when the writes under way are done.
  void End(grpc::Status status) EXCLUDES(mutex_);
  void FinishIfIdleLocked() REQUIRES(mutex_);

  DoorContext& door_;
  grpc::CallbackServerContext* context_ = nullptr;  // until OnDone
  ProxyVersion version_;
  SessionRequest request_;
  bool relayed_here_ = false;             // by another proxy
  std::shared_ptr<ClientSocket> socket_;  // of a client's own connection, if it is known
  std::shared_ptr<SessionStream> self_;   // until OnDone
  std::atomic<bool> left_ = false;

  // On the strand. One of the three, once the controller has answered.
  std::unique_ptr<ClientSession> client_;
  bool relayed_ = false;  // through relay_
  absl::Status refusal_;
  std::shared_ptr<AgentDesk> desk_;
  uint64_t relayed_session_ = 0;
  bool asked_again_ = false;

  Mutex mutex_;
  ReadGate gate_ GUARDED_BY(mutex_){ReadGate::Limits{}};
  std::unique_ptr<Incoming> reading_;  // belongs to gRPC between StartRead and OnReadDone
  std::vector<std::unique_ptr<Incoming>> spare_ GUARDED_BY(mutex_);
  AnswerQueue answers_ GUARDED_BY(mutex_);
  IfrtResponse answer_;  // like its options, its writer's while writing_
  grpc::WriteOptions write_options_;
  bool writing_ GUARDED_BY(mutex_) = false;
  int beginning_ GUARDED_BY(mutex_) = 0;  // threads that are about to call gRPC: it isn't finished before
  std::shared_ptr<SessionRelay> relay_ GUARDED_BY(mutex_);
  bool wrote_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::Alarm> alarm_ GUARDED_BY(mutex_);
  bool alarm_set_ GUARDED_BY(mutex_) = false;
  bool broken_ GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> ending_ GUARDED_BY(mutex_);
  bool finished_ GUARDED_BY(mutex_) = false;

  Strand strand_;  // last: its destructor waits for tasks that use the rest
};

}  // namespace switchtower
