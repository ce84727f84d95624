// A modelled worker: takes commands in order as the contract in worker_api says, and lets time pass for what a real one
// would do. Devices run their launches one after the other; the ranks of a gang meet before any of them ends.
//
//   commands --latency--> intake --> queue of each device --inputs filled--> gang meets --duration--> results, events
//
// Place:    controller/sim.
// Threads:  the loop's.
// Lifetime: the fabric outlives its workers; a channel may be gone before its worker.
// Errors:   an argument that is an error ends the launch with it, as in a real worker.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "controller/sim/sim_loop.h"
#include "controller/sim/sim_program.h"
#include "worker_api/channel.h"

namespace switchtower {

class SimWorker;

// What the workers of one cluster share: time, chance, the meetings of gangs and the way to each other.
struct SimFabric {
  struct Options {
    uint64_t seed = 1;
    // Of a message between controller and worker, and of a piece between workers.
    int64_t latency_min_ns = 20'000, latency_max_ns = 20'000;
    // How long a program's launches take; those that aren't named take a moment that depends on the name.
    std::map<std::string, int64_t> durations_ns;
    double duration_jitter = 0;  // of a launch, as a part of its duration
    int64_t device_memory = 0;   // bytes of each device, checked; 0: not
    // A device doesn't take its launches in the order sent, but any whose inputs are there. For the test of the test.
    bool per_device_choice = false;
  };
  explicit SimFabric(Options options_in) : options(std::move(options_in)), random(options.seed) {}

  int64_t Latency() {
    if (options.latency_min_ns == options.latency_max_ns) return options.latency_min_ns;
    return std::uniform_int_distribution<int64_t>(options.latency_min_ns, options.latency_max_ns)(random);
  }
  int64_t DurationOf(const std::string& program);

  const Options options;
  SimLoop loop;
  std::mt19937_64 random;
  std::map<WorkerId, SimWorker*> workers;
  std::map<std::string, int64_t> result_bytes;  // by program: of each result, on each device

  struct Meeting;
  std::map<LaunchId, std::shared_ptr<Meeting>> meetings;
  // Complaints of the model about the controller: memory given twice, launches out of order.
  std::vector<std::string> faults;
};

class SimWorker {
 public:
  SimWorker(SimFabric& fabric, WorkerId id, int32_t devices);
  ~SimWorker();

  std::unique_ptr<WorkerChannel> NewChannel();
  void Take(const WorkerCommand& command);

  struct DeviceUse {
    int64_t busy_ns = 0;  // some launch had it
    int64_t first_start_ns = -1;
    int64_t last_end_ns = 0;
    int64_t memory_peak = 0;
    uint64_t launches = 0;
    std::map<SessionId, int64_t> busy_ns_of;  // by session
  };
  const DeviceUse& use(int32_t ordinal) const;
  // Measures from now on.
  void ResetUse();
  // What the heads of the queues are, for a stalled cluster's story.
  std::string Describe() const;
  size_t queued() const;

 private:
  friend struct SimFabric::Meeting;
  struct Buffer;
  struct Device;
  struct LaunchHere;
  struct Task;
  struct Stream;
  struct Inbound;
  using BufferPtr = std::shared_ptr<Buffer>;
  class Channel;
  struct Gang {
    size_t size = 0;
    std::vector<std::pair<int, int32_t>> here;  // rank and device of this worker
  };

  void Do(const DefineGang& command);
  void Do(const DropGang& command) { gangs_.erase(command.gang); }
  void Do(const LoadProgram& command) { programs_[command.program] = command.name; }
  void Do(const UnloadProgram& command) { programs_.erase(command.program); }
  void Do(const Launch& command);
  void Do(const CancelLaunch& command);
  void Do(const PutArray& command);
  void Do(const StreamChunk& command);
  void Do(const BindArrays& command);
  void Do(const PutError& command);
  void Do(const TransferArray& command);
  void Do(const ReadShard& command);
  void Do(const AwaitReady& command);
  void Do(const DeleteArrays& command);
  void Do(const EndSession& command);
  void Do(const ReportTimes& command) { report_times_ = command.on; }
  void Do(const SetPeers&) {}
  void Do(const AskMemory&) {}
  void Do(const AskActivity&) {}
  void Do(const ReturnHostCall&) {}

  void Emit(WorkerEvent event);
  BufferPtr Find(ArrayKey array, int32_t ordinal);
  BufferPtr Promise(ArrayKey array, int32_t ordinal, int64_t bytes);
  void Name(ArrayKey array, int32_t ordinal, BufferPtr buffer);
  void Unname(ArrayKey array, int32_t ordinal);
  void Fill(const BufferPtr& buffer, SimWords words, absl::Status error);
  void Settle(Buffer& buffer);
  void Hold(Buffer& buffer);
  void LetGo(Buffer& buffer);

  void Advance(int32_t ordinal);
  void Start(const std::shared_ptr<Task>& task);
  void End(const std::shared_ptr<Task>& task, std::vector<SimWords> results, absl::Status error);
  void Fail(LaunchHere& launch, const absl::Status& cause, bool origin);
  void Piece(LaunchId transfer, int32_t ordinal, const Box& box, SimWords words, absl::Status error);
  using InboundKey = std::pair<LaunchId, int32_t>;
  void TryFinish(InboundKey key);

  SimFabric& fabric_;
  const WorkerId id_;
  Channel* channel_ = nullptr;
  WorkerChannel::Handlers handlers_;
  int64_t last_delivery_ns_ = 0, last_event_ns_ = 0;
  bool report_times_ = false;
  absl::flat_hash_map<GangId, Gang> gangs_;
  absl::flat_hash_map<ProgramId, std::string> programs_;
  absl::flat_hash_map<ArrayKey, std::map<int32_t, BufferPtr>> store_;
  std::map<LaunchId, std::shared_ptr<LaunchHere>> launches_;  // not under the watermark
  absl::flat_hash_map<StreamId, Stream> streams_;
  std::map<InboundKey, Inbound> inbound_;
  std::vector<std::unique_ptr<Device>> devices_;
  LaunchId newest_;
};

}  // namespace switchtower
