// The contract from worker to controller: events as values, one ordered stream for each worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "types/ids.h"
#include "types/shape.h"
#include "worker_api/worker_activity.h"

namespace switchtower {

// All launches up to and including `completed` that were sent to this worker have ended on all of its
// devices, well or not. Sent at least whenever the worker runs out of launches, at once if one is awaited.
struct Watermark {
  LaunchId completed;
  // For the worker's port, which doesn't send them.
  uint64_t ahead = 0;    // launches that are left here
  bool awaited = false;  // one of those that it tells of for the first time is (Launch::awaited)
};

// A launch (or a transfer, by its id) failed on this worker: a rank couldn't start it, or its program ended
// in an error. Sent once for each launch and worker, with the first cause. `origin` is false where the cause
// is a CancelLaunch or a peer's error that the controller knows already.
struct LaunchFailed {
  LaunchId launch;
  SessionId session;
  absl::Status cause;
  bool origin = true;
};

struct Ready {
  RequestId request;
  absl::Status status;
};

// Pieces of the answer to a ReadShard, in order; `last` ends it. A status that isn't OK ends it too.
struct ReadData {
  RequestId request;
  std::shared_ptr<const std::string> data;
  bool last = false;
  absl::Status status;
};

// A program couldn't be loaded.
struct ProgramLoadFailed {
  ProgramId program;
  absl::Status cause;
};

// Counters since the worker started; sent about once a second while they change, and on the last event
// before a worker stops.
struct WorkerStats {
  uint64_t launches = 0;             // per-device program executions
  uint64_t collectives = 0;          // collective operations completed by members here
  uint64_t bytes_in_memory = 0;      // exchanged between members inside this process
  uint64_t bytes_shared_memory = 0;  // sent to workers on this host
  uint64_t bytes_tcp = 0;            // sent to workers on other hosts
  uint64_t bytes_put = 0;            // host -> device
  uint64_t bytes_read = 0;           // device -> host
  uint64_t buffer_bytes = 0;         // held by arrays now
  uint64_t buffers = 0;              // entries held now
  std::vector<uint64_t> busy_ns;     // of each device, by ordinal: executing launches, waits in collectives included
};

// A running program calls a function in its client's process (hlo/host_callbacks.h). Answered by ReturnHostCall; the
// launch waits until then or until it is cancelled, after which an answer is dropped.
struct HostCall {
  RequestId request;  // the worker's numbering
  LaunchId launch;
  SessionId session;
  int32_t rank = 0;
  uint64_t callback = 0;
  // In the order of the call; a token has no bytes. Dense and row major, types below a byte packed.
  std::vector<Shape> operands;
  std::vector<Shape> results;
  std::shared_ptr<const std::string> data;  // the operands, one after the other
};

// What arrays hold on each device of the worker, by ordinal.
struct MemoryInUse {
  struct Device {
    uint64_t bytes = 0;
    uint64_t peak_bytes = 0;
  };
  RequestId request;
  std::vector<Device> devices;
};

// When launches had a device, while ReportTimes asks for it. Comes when they have ended, before the watermark that
// passes them. Launches that never started aren't in it.
struct LaunchTimes {
  struct Span {
    LaunchId launch;
    int32_t ordinal = 0;
    // Nanoseconds since the epoch, by the worker's clock. A launch has its device from the moment that it was started
    // and the one before it had ended.
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };
  std::vector<Span> spans;
};

// When bytes of array transfers were on their way to another worker, as LaunchTimes.
struct TransferTimes {
  struct Span {
    LaunchId transfer;
    WorkerId to;
    uint64_t bytes = 0;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;  // the fabric no longer needs them
  };
  std::vector<Span> spans;
};

using WorkerEvent = std::variant<Watermark, LaunchFailed, Ready, ReadData, ProgramLoadFailed, WorkerStats, HostCall,
                                 MemoryInUse, LaunchTimes, WorkerActivity, TransferTimes>;

}  // namespace switchtower
