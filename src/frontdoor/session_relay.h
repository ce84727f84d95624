// Carries one client's session stream to the proxy that is the home of its slices, unchanged, and back (S-3).
//
//   client == SessionStream --Forward-----------> SessionRelay == gRPC stream ==> SessionStream of the home
//                           <--Send, RelayEnded--
//
// The stream's first metadata says for whom it comes, so that the home doesn't relay it in its turn; the home's say
// which session it opened. Only then the client's requests are read.
//
// Place:    frontdoor; in the stead of a ClientSession.
// Threads:  methods from any thread, calls of the client's stream on gRPC's. Nothing is called with the lock held.
// Lifetime: held by gRPC until its stream has ended, whoever else lets go. Cancel() ends the session at the home.
// Errors:   the end of the home's stream, however it comes, is an error for the client: each request that still waits
//           is answered with it, then RelayEnded gets it.
// Invariants: S-1 answers are read ahead as far as the client's stream has room. S-2 requests on the way are those that
//             its ReadGate lets in.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/strand.h"
#include "frontdoor/relay_table.h"
#include "frontdoor/replier.h"

namespace switchtower {

// The client's stream.
class RelayedStream : public ReplySink {
 public:
  // For more answers. If not, it says OnDrained when it has sent those that it has.
  virtual bool HasRoom() = 0;
  // The home has opened `session`, whose host buffers have the key `buffers`; 0: it refuses, and says why in answer to
  // the first request.
  virtual void RelayOpened(uint64_t session, uint64_t buffers) = 0;
  // Once. `opened`: the home had answered before.
  virtual void RelayEnded(bool opened, absl::Status why) = 0;
};

class SessionRelay final : private grpc::ClientBidiReactor<IfrtRequest, IfrtResponse> {
 public:
  // `metadata` of the client's session, as it came; `client`: its address.
  static std::shared_ptr<SessionRelay> Start(std::shared_ptr<const HomeDoor> home, const std::string& metadata,
                                             const std::string& client, std::weak_ptr<RelayedStream> stream);

  // Once opened, in order. `forwarded` runs when the request was written, or never will be.
  void Forward(IfrtRequest request, Task forwarded) EXCLUDES(mutex_);
  void OnDrained() EXCLUDES(mutex_);
  void Cancel() EXCLUDES(mutex_);
  const std::shared_ptr<const HomeDoor>& home() const { return home_; }

 private:
  struct Outgoing {
    IfrtRequest request;
    Task forwarded;
  };

  SessionRelay(std::shared_ptr<const HomeDoor> home, std::weak_ptr<RelayedStream> stream)
      : home_(std::move(home)), stream_(std::move(stream)) {}

  void OnReadInitialMetadataDone(bool ok) override EXCLUDES(mutex_);
  void OnReadDone(bool ok) override EXCLUDES(mutex_);
  void OnWriteDone(bool ok) override EXCLUDES(mutex_);
  void OnDone(const grpc::Status& status) override EXCLUDES(mutex_);

  void StartWriteLocked() REQUIRES(mutex_);
  void StartReadLocked() REQUIRES(mutex_);
  // Begins nothing any more, so that gRPC may come to the end.
  void CloseLocked() REQUIRES(mutex_);
  void Fail(uint64_t op, uint64_t user_context, const absl::Status& why);

  const std::shared_ptr<const HomeDoor> home_;
  const std::weak_ptr<RelayedStream> stream_;
  grpc::ClientContext context_;
  std::shared_ptr<SessionRelay> self_;  // until OnDone
  bool opened_ = false;                 // gRPC's reactions before the end, and the end
  IfrtResponse response_;               // belongs to gRPC while reading

  Mutex mutex_;
  std::deque<Outgoing> writes_ GUARDED_BY(mutex_);  // the front one is under way
  bool wrote_ GUARDED_BY(mutex_) = false;
  bool reading_ GUARDED_BY(mutex_) = false;  // or handing on what was read
  bool drained_ GUARDED_BY(mutex_) = false;  // meanwhile
  bool closed_ GUARDED_BY(mutex_) = false;
  absl::Status ended_ GUARDED_BY(mutex_);                                  // why, once it is over
  absl::flat_hash_map<uint64_t, uint64_t> unanswered_ GUARDED_BY(mutex_);  // op id -> user context
};

}  // namespace switchtower
