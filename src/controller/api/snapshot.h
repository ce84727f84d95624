// What the controller can tell of itself, as values: one place for status pages, metrics, summaries and `why`.
//
// Workers are named by their seats of the lease, devices by seat and ordinal. Ages are durations up to the moment of
// the snapshot. Lists are bounded (kSnapshot...Max); the counts beside them are not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "types/ids.h"
#include "worker_api/events.h"
#include "worker_api/worker_activity.h"

namespace switchtower {

inline constexpr size_t kSnapshotLaunchesMax = 2048;  // the oldest
inline constexpr size_t kSnapshotQueuedMax = 64;      // of each session, from the head on
inline constexpr size_t kSnapshotArraysMax = 256;     // of one wait

struct DevicePlace {
  int32_t seat = 0;
  int32_t ordinal = 0;
  friend auto operator<=>(const DevicePlace&, const DevicePlace&) = default;
};

struct WorkerSnapshot {
  enum class State { kWaiting, kUp, kDown };  // waiting: nobody has sat here yet
  int32_t seat = 0;
  WorkerId id;       // 0 unless it is up
  std::string name;  // "slice s0 host 1"
  State state = State::kUp;
  int32_t num_devices = 0;
  uint64_t commands_sent = 0;
  uint64_t queued_bytes = 0;               // on their way to it
  WorkerStats stats;                       // as it last reported
  std::optional<WorkerActivity> activity;  // its last answer, if it was ever asked
  int64_t silent_us = 0;                   // for how long it has owed an answer; 0: it owes none
};

// Launches and transfers that were sent and haven't ended everywhere.
struct LaunchSnapshot {
  LaunchId id;
  SessionId session;
  ProgramId program;
  std::string name;       // of the program
  std::string source;     // "file.py:123" of the program's entry
  std::string call_site;  // where the client asked for this launch, if it tells
  int32_t client_launch_id = 0;
  int64_t age_us = 0;
  std::vector<DevicePlace> ranks;
  std::vector<ArrayId> arguments;
  std::vector<ArrayId> results;
  std::vector<int32_t> open_seats;  // of workers that haven't ended it
  std::string error;                // it has failed, and some still run
};

// A collective that some rank waits in, all workers' answers together.
struct CollectiveSnapshot {
  LaunchId launch;
  uint32_t op_id = 0;
  uint32_t iteration = 0;
  uint32_t group = 0;
  std::string kind;    // "all-reduce"
  std::string name;    // of the HLO instruction
  std::string source;  // "file.py:123"
  std::vector<int64_t> ranks_in;
  std::vector<int64_t> ranks_out;
  std::vector<int64_t> ranks_unknown;  // their workers don't answer
  int64_t age_us = 0;
};

// What a client waits for an answer to.
struct WaitSnapshot {
  SessionId session;
  bool read = false;  // bytes; else readiness
  std::vector<ArrayId> arrays;
  std::vector<int32_t> open_seats;  // of workers that haven't answered
  int64_t age_us = 0;
};

// An operation that isn't sent yet.
struct QueuedSnapshot {
  std::string what;       // "launch of jit_step"
  std::string call_site;  // as LaunchSnapshot's
  std::vector<ArrayId> uses;
  std::vector<ArrayId> makes;
  std::string waits_for;  // empty: for those before it
};

struct SessionSnapshot {
  SessionId id;
  std::string peer;
  uint64_t launches_sent = 0;
  uint64_t launches_in_flight = 0;  // queued ones included, and what else is queued
  uint64_t operations_queued = 0;   // waiting for workers or memory
  std::string waits_for;            // of the head of the queue; empty if nothing waits
  uint64_t compiles = 0;            // begun or waiting
  uint64_t compiles_waiting = 0;    // for a compiler
  int64_t compile_age_us = 0;       // of the oldest
  std::vector<QueuedSnapshot> queue;
  struct Device {
    DeviceId id;  // as the client names it
    DevicePlace place;
  };
  std::vector<Device> devices;
};

struct ProgramSnapshot {
  ProgramId id;
  std::string name;
  std::string source;
  int32_t num_partitions = 0;
  int64_t uses = 0;     // executables of sessions
  int32_t workers = 0;  // that have it loaded, or are about to
};

// One lease of the proxy with its sequencer.
struct HomeSnapshot {
  std::string slices;  // as asked for; empty: shared
  uint64_t epoch = 0;
  int64_t device_memory = 0;  // bytes of each device; 0: not limited
  uint64_t launches = 0;
  uint64_t launches_in_flight = 0;
  uint64_t transfers = 0;
  uint64_t puts = 0;
  uint64_t reads = 0;
  std::vector<WorkerSnapshot> workers;  // of every seat, those that are up first
  std::vector<SessionSnapshot> sessions;
  std::vector<ProgramSnapshot> programs;
  std::vector<LaunchSnapshot> in_flight;
  std::vector<WaitSnapshot> waits;   // the oldest first
  std::vector<std::string> opening;  // clients whose sessions wait for slices
  std::vector<CollectiveSnapshot> collectives;
};

struct ControllerSnapshot {
  std::vector<HomeSnapshot> homes;
  std::vector<HomeSnapshot> ended;  // as they were when their last session closed; the last few
};

class ControllerIntrospection {
 public:
  virtual ~ControllerIntrospection() = default;
  using Done = absl::AnyInvocable<void(ControllerSnapshot)>;
  // What the controller knows by itself. `done` runs once, on any thread.
  virtual void Snapshot(Done done) = 0;
  // Asks the workers first, and waits for their answers no longer than this.
  virtual void Inspect(std::chrono::milliseconds patience, Done done) = 0;
  // Whether workers tell when launches and transfers ran, which goes to the controller's TraceRecorder.
  virtual void ReportTimes(bool on) = 0;
};

}  // namespace switchtower
