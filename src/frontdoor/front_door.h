// The server side of the IFRT proxy: an unmodified JAX client connects here.
//
//   client ==gRPC==> IfrtService -> SessionStream (strand) -> ClientSession -> handlers -> controller::Session
//                        `-> HostBufferStore/Lookup RPCs <-> HostBufferStore
//
// A session whose slices have their home at another proxy is relayed to that one's door, whole and unchanged.
//
// Place:    frontdoor; above controller/api and wire/ifrt, knows nothing of workers.
// Threads:  Start and Stop from one thread. gRPC threads only move messages; each session has a strand.
// Lifetime: the controller must outlive the door. Stop() (or the destructor) ends all sessions.
// Errors:   Start: InvalidArgument or Unavailable with a sentence for people, e.g. if the port is in use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/api/session.h"
#include "controller/api/trace.h"
#include "wire/ifrt/versions.h"

namespace grpc {
class Service;
}

namespace switchtower {

class RelayTable;

struct FrontDoorOptions {
  // The link is neither encrypted nor authenticated (the client's wheel can't do better off Google Cloud).
  std::string host = "127.0.0.1";
  int port = 0;     // 0: any free one
  int threads = 2;  // run the strands of all sessions
  // A client's stream isn't read on while it has this many launches under way.
  size_t launches_in_flight_max = 512;
  // Uploads of a session that no request has asked for yet: what a client sends ahead of a stream that is held up.
  int64_t waiting_upload_bytes_max = int64_t{256} << 20;
  // What a session's downloads may take here, from the request for them until they were fetched; one may exceed it
  // alone. The client's stream isn't read on while they do, nor while it has so much of answers to read.
  int64_t download_bytes_max = int64_t{1} << 30;
  size_t unread_answer_bytes_max = size_t{64} << 20;
  // Where clients may leave uploads as files (lt_<handle>). Empty: nowhere. Handles are of one session, so one client
  // at a time can use it.
  std::string shared_upload_dir;
  // The highest version of the protocol that clients are offered.
  int protocol_max = kProtocolMax;
  int stop_grace_ms = 2000;
  // Served on the same port; they outlive the door.
  std::vector<grpc::Service*> services;
  TraceRecorder* trace = nullptr;  // of requests; null: nobody traces
  RelayTable* relays = nullptr;    // where the door keeps which sessions it relays; null: for itself
};

class FrontDoor {
 public:
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Start(const FrontDoorOptions& options, Controller& controller);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  int port() const;
  // Ends the sessions that were opened here so far, not those that are relayed. Their clients get `why` in answer to
  // what they wait for or ask next; new sessions may be opened meanwhile.
  void EndSessions(const absl::Status& why);
  // Ends all sessions; their clients see UNAVAILABLE with the reason.
  void Stop();

  struct Counts {
    size_t sessions = 0;               // that are here
    size_t relayed = 0;                // that are at another proxy
    int64_t waiting_upload_bytes = 0;  // came before the request that uses them
    int64_t download_bytes = 0;        // wait to be fetched
  };
  Counts counts() const;

 private:
  struct Impl;
  explicit FrontDoor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace switchtower
