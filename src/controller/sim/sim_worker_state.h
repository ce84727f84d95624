// What a SimWorker keeps of its arrays, devices and launches. Private to SimWorker's sources.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "controller/sim/sim_worker.h"

namespace switchtower {

// An entry of the store. It holds memory while somebody can still use it: under a name, or in a queued launch.
struct SimWorker::Buffer {
  SimWords words;
  absl::Status error;
  bool filled = false;
  int names = 0;
  int uses = 0;  // by launches that haven't ended
  Device* device = nullptr;
  int64_t bytes = 0;
  bool held = false;
  std::vector<absl::AnyInvocable<void()>> waiters;
};

struct SimWorker::Device {
  int32_t ordinal = 0;
  std::deque<std::shared_ptr<Task>> queue;
  std::shared_ptr<Task> current;
  int64_t memory = 0;
  DeviceUse use;
};

struct SimWorker::LaunchHere {
  LaunchId id;
  SessionId session;
  std::string program;
  size_t gang_size = 0;
  std::vector<std::shared_ptr<Task>> tasks;
  size_t open = 0;
  bool failed = false;
};

struct SimWorker::Task {
  std::shared_ptr<LaunchHere> launch;
  int rank = 0;
  int32_t ordinal = 0;
  std::vector<BufferPtr> arguments;
  std::vector<bool> takes;  // the argument's buffer
  std::vector<BufferPtr> results;
  int64_t started_ns = -1;
  bool ended = false;
};

// The ranks of a launch that have come to its collective.
struct SimFabric::Meeting {
  std::map<int, std::pair<SimWorker*, std::shared_ptr<SimWorker::Task>>> ranks;
  bool complete = false;

  // Each rank's results, from the whole arrays that the ranks' arguments make up.
  void Finish();
};

struct SimWorker::Stream {
  std::string bytes;
  absl::Status error;
  bool ended = false;
  std::vector<BufferPtr> targets;
};

// A shard that is put together from pieces. They may come before the command.
struct SimWorker::Inbound {
  BufferPtr target;  // null: not told yet
  std::vector<std::pair<Box, SimWords>> pieces;
  absl::Status error;
  size_t arrived = 0, expected = 0;
  int64_t elements = 0;
};

}  // namespace switchtower
