// Host bytes -> entries: streams of chunks from the controller, and the arrays that are made from them.
//
//   StreamChunk ... last --> Stream --(dense and one chunk: as it is; else put together once)--> FromHost --> entry
//
// Place:    worker/exec.
// Threads:  the intake; large copies run on `io`.
// Lifetime: a stream is kept until it has ended and all PutArrays that use it were served.
// Errors:   DATA_LOSS if a stream ends early or late, INVALID_ARGUMENT if the bytes don't make the shape; the entries
//           read them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/engine/engine.h"
#include "worker/exec/work_queue.h"
#include "worker/store/buffer_store.h"
#include "worker_api/commands.h"
#include "worker_api/worker_activity.h"

namespace switchtower {

struct HostTraffic {
  std::atomic<uint64_t> bytes_put{0};
  std::atomic<uint64_t> bytes_read{0};
};

class HostPuts {
 public:
  HostPuts(WorkerId self, Engine& engine, BufferStore& store, std::shared_ptr<WorkQueue> io,
           std::shared_ptr<HostTraffic> traffic);

  void Put(PutArray command);
  void Chunk(StreamChunk chunk);
  // Arrays of the session that still wait for bytes become `cause`.
  void EndSession(SessionId session, const absl::Status& cause);
  void Reset(const absl::Status& cause);
  // Arrays that wait for bytes.
  void Describe(WorkerActivity* activity) const;

 private:
  class Bytes;  // of one stream
  struct Target {
    int32_t ordinal;
    BufferEntryPtr entry;
  };
  struct Job {
    PutArray command;
    std::vector<Target> targets;
  };
  struct Stream {
    std::shared_ptr<Bytes> bytes;
    bool ended = false;
    absl::Status error;
    uint32_t uses = 0;
    uint32_t served = 0;
    bool abandoned = false;  // nobody will use what comes
    std::vector<Job> waiting;
  };

  void Serve(Stream& stream, Job job);
  void DropIfServed(StreamId id);
  static absl::Status CheckBytes(const PutArray& command, uint64_t received);
  static void Make(Engine& engine, Job job, std::shared_ptr<Bytes> bytes);
  static void Fail(const Job& job, const absl::Status& cause);

  const WorkerId self_;
  Engine& engine_;
  BufferStore& store_;
  const std::shared_ptr<WorkQueue> io_;
  const std::shared_ptr<HostTraffic> traffic_;
  absl::flat_hash_map<StreamId, Stream> streams_;
};

}  // namespace switchtower
