// The fabric inside one process: several endpoints, no sockets. For tests of what sits above.
//
// Place:    transport. A real small implementation: it checks secrets, keeps order, loses peers.
// Threads:  one strand for each endpoint over the network's small pool.
// Lifetime: the network outlives its endpoints. Stop or destruction of an endpoint is that worker's
//           death for all peers that have it in their table.
#pragma once

#include <memory>

#include "transport/fabric.h"

namespace switchtower {

class InProcessFabric;

class InProcessNetwork {
 public:
  explicit InProcessNetwork(int threads = 2);
  ~InProcessNetwork();
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;

  std::unique_ptr<Fabric> NewEndpoint();
  // What a killed process looks like: nothing more comes from it, peers learn that it is lost.
  void Kill(WorkerId worker);

 private:
  friend class InProcessFabric;
  struct Hub;
  std::shared_ptr<Hub> hub_;
};

}  // namespace switchtower
