// The simulated devices: a queue with its own thread and a memory each; events and buffers.
//
// Threads:  Device::Run is the device's thread; all else from any thread.
// Lifetime: a Client owns its devices and must outlive buffers, as PJRT asks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/simdev/program.h"

namespace simdev {

struct Failure {
  int code = 0;  // absl::StatusCode; 0: none
  std::string message;
};

// Becomes ready once, well or not.
class State {
 public:
  void Set(Failure failure);
  void OnReady(std::function<void(const Failure&)> callback);
  Failure Await();
  bool ready();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
  Failure failure_;
  std::vector<std::function<void(const Failure&)>> callbacks_;
};
using StatePtr = std::shared_ptr<State>;

class Device;

// A memory of one device. Accounts bytes; refuses what doesn't fit.
struct Memory {
  Device* device = nullptr;
  int id = 0;
  std::string kind;
  std::string debug;
  int64_t limit = 0;  // 0: none
  std::mutex mutex;
  int64_t used = 0, peak = 0;

  bool Reserve(int64_t bytes);
  void Free(int64_t bytes);
};

// The bytes of an array; shared by the aliases of a donation.
struct Storage {
  Storage(Memory* memory, int64_t bytes) : memory(memory), bytes(bytes) {}
  ~Storage() { memory->Free(bytes); }
  Memory* const memory;
  const int64_t bytes;
  std::string data;  // empty: zeros
  StatePtr state = std::make_shared<State>();
};

class Device {
 public:
  Device(int id, int64_t memory_bytes, int64_t time_percent);
  ~Device();

  // Runs `work` after all that was queued before.
  void Queue(std::function<void()> work);
  // Takes the modelled time, on the device's thread.
  void Compute(int64_t microseconds) const;

  const int id;
  const std::string debug;
  std::vector<std::unique_ptr<Memory>> memories;  // first: the default
  int64_t executions = 0;                         // device thread

 private:
  void Run();

  const int64_t time_percent_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace simdev
