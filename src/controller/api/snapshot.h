// What the controller can tell of itself, as values: one place for status pages, metrics and summaries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "types/ids.h"
#include "worker_api/events.h"

namespace switchtower {

struct WorkerSnapshot {
  WorkerId id;
  std::string name;  // "slice s0 host 1"
  uint64_t commands_sent = 0;
  uint64_t queued_bytes = 0;  // on their way to it
  WorkerStats stats;          // as it last reported
};

struct SessionSnapshot {
  SessionId id;
  std::string peer;
  uint64_t launches_sent = 0;
  uint64_t launches_in_flight = 0;  // queued ones included, and what else is queued
  uint64_t operations_queued = 0;   // waiting for workers or memory
  std::string waits_for;            // of the head of the queue; empty if nothing waits
};

// One lease of the proxy with its sequencer.
struct HomeSnapshot {
  std::string slices;  // as asked for; empty: shared
  uint64_t epoch = 0;
  uint64_t launches = 0;
  uint64_t launches_in_flight = 0;
  uint64_t transfers = 0;
  uint64_t puts = 0;
  uint64_t reads = 0;
  std::vector<WorkerSnapshot> workers;
  std::vector<SessionSnapshot> sessions;
};

struct ControllerSnapshot {
  std::vector<HomeSnapshot> homes;
  std::vector<HomeSnapshot> ended;  // as they were when their last session closed; the last few
};

class ControllerIntrospection {
 public:
  virtual ~ControllerIntrospection() = default;
  // `done` runs once, on any thread.
  virtual void Snapshot(absl::AnyInvocable<void(ControllerSnapshot)> done) = 0;
};

}  // namespace switchtower
