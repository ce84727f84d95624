// A WorkerChannel and its ControllerPort inside one process, without sockets and encoding.
//
// Place:    worker_api; for tests of controller and worker, and for a cluster in one process.
// Threads:  each side's handlers run on a strand of their own over `pool`.
// Lifetime: the pool outlives both ends. Closing or destroying either end closes both; what was sent before it
//           still arrives.
#pragma once

#include <memory>

#include "base/strand.h"
#include "worker_api/channel.h"
#include "worker_api/port.h"

namespace switchtower {

struct InProcessLink {
  std::unique_ptr<WorkerChannel> channel;  // for the controller
  std::shared_ptr<ControllerPort> port;    // for the worker
};
InProcessLink MakeInProcessLink(ThreadPool& pool);

}  // namespace switchtower
