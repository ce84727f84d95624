// What a worker is at, as a value: the answer to "why does it wait".
//
// Ages are durations up to the moment of the answer, so that no two clocks are compared. Of each kind the oldest
// kActivityEntriesMax are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "types/ids.h"

namespace switchtower {

inline constexpr size_t kActivityEntriesMax = 256;

struct WorkerActivity {
  // One rank of a launch, taken from its device's queue.
  struct Task {
    LaunchId launch;
    int32_t rank = 0;
    std::string program;
    bool running = false;  // given to the engine; else it waits for what follows
    int64_t age_us = 0;    // since it runs, or waits
    bool program_loading = false;
    std::vector<uint32_t> missing_arguments;  // by position in the launch
  };
  struct Device {
    std::vector<Task> tasks;  // in the order of the queue
    uint64_t queued = 0;      // launches behind them
    uint64_t bytes = 0;       // held by arrays
    uint64_t peak_bytes = 0;
    uint64_t busy_ns = 0;  // that launches had it, the one that has it now included
  };
  // A collective that ranks here have come to, or peers of this worker.
  struct Collective {
    LaunchId launch;
    uint32_t op_id = 0;  // CollectiveSite of the program
    uint32_t iteration = 0;
    uint32_t group = 0;
    std::string kind;
    std::vector<int64_t> ranks_in;    // those here that came, and those whose worker's messages came
    std::vector<int64_t> ranks_open;  // the others
    int64_t age_us = 0;
  };
  // A shard here that still waits for pieces.
  struct Transfer {
    LaunchId id;
    SessionId session;
    ArrayId from;
    ArrayId to;
    int32_t ordinal = 0;
    std::vector<WorkerId> sources;  // that pieces must come from, this worker perhaps among them
    uint64_t bytes_missing = 0;
    int64_t age_us = 0;
  };
  // An array that waits for the client's bytes.
  struct Upload {
    SessionId session;
    ArrayId array;
    uint64_t bytes_here = 0;
    uint64_t bytes_expected = 0;
  };
  // A program that waits for a function in its client's process.
  struct Call {
    LaunchId launch;
    int32_t rank = 0;
    uint64_t callback = 0;
    int64_t age_us = 0;
  };
  RequestId request;
  std::vector<Device> devices;  // by ordinal
  std::vector<Collective> collectives;
  std::vector<Transfer> transfers;
  std::vector<Upload> uploads;
  std::vector<Call> calls;
  std::vector<std::string> fault_points;  // armed for a test
};

}  // namespace switchtower
