// ReadShard: a shard's bytes to the controller, in chunks.
//
// Place:    worker/exec.
// Threads:  Read on the intake; the rest on `io` and on threads of the engine.
// Lifetime: reads outlive the reader; they end when the engine has answered and the port took or dropped the chunks.
// Errors:   the entry's first cause, in a ReadData that ends the answer.
// Invariants: at most kLargeReads reads of more than one chunk are at work, with kWindow chunks each in the port: what
//           a slow controller can make a worker hold is bounded.
#pragma once

#include <memory>

#include "worker/engine/engine.h"
#include "worker/exec/host_puts.h"
#include "worker/exec/work_queue.h"
#include "worker/store/buffer_entry.h"
#include "worker_api/commands.h"
#include "worker_api/port.h"

namespace switchtower {

class ShardReader {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;
  static constexpr int kWindow = 8;
  static constexpr int kLargeReads = 4;

  ShardReader(Engine& engine, std::shared_ptr<WorkQueue> io, std::shared_ptr<HostTraffic> traffic);

  void Read(const BufferEntryPtr& entry, ReadShard command, std::shared_ptr<ControllerPort> port);

 private:
  class Job;
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace switchtower
