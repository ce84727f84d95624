// Sessions whose clients came to this door and whose home is another proxy's: which, and the way there.
//
// Place:      frontdoor; written by SessionStream, read by what else of a session comes in beside its stream.
// Threads:    any.
// Invariants: R-2 a relayed session is found, by its number and by the key of its host buffers, from before its client
//             learns of them until its stream ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/address.h"
#include "types/home_door.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.grpc.pb.h"

namespace switchtower {

// The door of another proxy, over a connection of this session's own: no session waits for another's flood.
struct HomeDoor {
  // `address`: "host:port". Connects when it is first used.
  static absl::StatusOr<std::shared_ptr<const HomeDoor>> Create(const std::string& address);

  std::string name;  // "host:port", for people
  Address address;
  std::unique_ptr<xla::ifrt::proxy::GrpcIfrtService::Stub> stub;
};

class RelayTable {
 public:
  // False if that session, or one with this key of its host buffers, is relayed already. `peer`: its client, for
  // people.
  bool Add(uint64_t session, uint64_t buffers, std::string peer, std::shared_ptr<const HomeDoor> home) EXCLUDES(mutex_);
  void Remove(uint64_t session) EXCLUDES(mutex_);
  // Null: no session that is relayed.
  std::shared_ptr<const HomeDoor> Find(uint64_t session) const EXCLUDES(mutex_);
  std::shared_ptr<const HomeDoor> FindByBuffers(uint64_t buffers) const EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);
  std::vector<RelayedSession> List() const EXCLUDES(mutex_);

 private:
  struct Entry {
    uint64_t buffers = 0;
    std::string peer;
    std::shared_ptr<const HomeDoor> home;
  };
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry> sessions_ GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, uint64_t> by_buffers_ GUARDED_BY(mutex_);  // key of host buffers -> session
};

}  // namespace switchtower
