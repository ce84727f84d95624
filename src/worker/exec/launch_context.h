// Where the device queues and the collectives meet.
//
//   DeviceQueue --Execute(user data = LaunchContext)--> program --FFI call--> CollectiveEngine
//
// Place:    worker/exec; worker/collective implements CollectiveEngine and reads LaunchContext in its FFI
//           handlers. It knows nothing else of exec.
// Threads:  every method from any thread. The callers hold no lock while they call.
// Lifetime: a LaunchContext lives until LaunchEnded(id) has returned. Once an execution has failed some of its
//           handlers may still wait, so a handler copies what it needs before it returns its future.
// Invariants: C-1 LaunchBegins(id) comes once, before any execution of the launch here; C-2 LaunchEnded(id) comes
//           once, after all executions of the launch here have ended; C-3 ids begin in ascending order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "types/device.h"
#include "types/ids.h"

namespace switchtower {

// Ranks of a program -> devices, with the worker that reads it.
struct GangTable {
  GangId id;
  WorkerId self;
  std::vector<PhysicalDevice> ranks;

  bool IsLocal(int rank) const { return ranks[rank].worker == self; }
};

struct CollectiveStats {
  uint64_t operations = 0;       // collective operations completed by members here
  uint64_t bytes_in_memory = 0;  // exchanged between members inside this process
};

// One operation that isn't complete yet, as this process sees it.
struct PendingCollective {
  LaunchId launch;
  uint32_t op_id = 0;  // CollectiveSite of the program has its name and source line
  uint32_t iteration = 0;
  uint32_t group = 0;
  std::string kind;
  std::vector<int64_t> ranks_here;     // local ranks that came, and those whose worker's message came
  std::vector<int64_t> ranks_missing;  // both empty: only peers' messages are here so far
  std::chrono::steady_clock::time_point since;
};

class HostCallTable;

class CollectiveEngine {
 public:
  virtual ~CollectiveEngine() = default;

  // The FFI type under which handlers ask for their LaunchContext (Engine::RegisterFfiType).
  virtual int64_t user_data_type() const = 0;

  // A launch with ranks here was taken in. Messages of peers may have come before it; those of an id up to
  // the newest one begun that isn't running here are stale.
  virtual void LaunchBegins(LaunchId launch, std::shared_ptr<const GangTable> gang) = 0;
  // Ends every pending collective of the launch with `cause`, and every later one at once. The first cause
  // stays. Nothing happens for a launch that isn't running here.
  virtual void CancelLaunch(LaunchId launch, absl::Status cause) = 0;
  // All ranks here have ended: whatever is left of the launch is dropped.
  virtual void LaunchEnded(LaunchId launch) = 0;
  // The controller names this peer (again): if it was lost, later launches try it anew.
  virtual void ForgetLost(WorkerId peer) = 0;

  virtual CollectiveStats stats() const = 0;
  // In no order.
  virtual std::vector<PendingCollective> Pending() const = 0;
};

// One rank's execution of one launch: the user data of its FFI calls.
class LaunchContext {
 public:
  LaunchContext(LaunchId id, int rank, std::shared_ptr<const GangTable> gang, CollectiveEngine* engine,
                SessionId session = {}, HostCallTable* host_calls = nullptr)
      : id(id), rank(rank), gang(std::move(gang)), engine(engine), session(session), host_calls(host_calls) {}
  LaunchContext(const LaunchContext&) = delete;
  LaunchContext& operator=(const LaunchContext&) = delete;

  const LaunchId id;
  const int rank;
  const std::shared_ptr<const GangTable> gang;
  CollectiveEngine* const engine;
  const SessionId session;
  HostCallTable* const host_calls;  // null: calls into the client fail

  // How often this rank has come to `op_id` before, in this launch. Iterations of one op are ordered by its
  // loop, so that all ranks count alike; different ops may count at the same time.
  uint32_t NextIteration(uint32_t op_id) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return iterations_[op_id]++;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<uint32_t, uint32_t> iterations_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
