// A whole controller with one session over workers of any kind, and a chain of steps through it: each step takes all
// arrays of the state, on all devices, and gives new ones; the client then drops the old ones. No compiler, no door.
//
// Place:    bench/scale.
// Threads:  one measuring thread; the controller has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/strand.h"
#include "controller/sessions/controller_impl.h"
#include "controller/sessions/testing_programs.h"
#include "resource_manager/api/fake_cluster.h"

namespace switchtower::bench {

struct ClusterSize {
  int32_t workers = 1;
  int32_t devices_per_worker = 8;
  int64_t devices() const { return int64_t{workers} * devices_per_worker; }
};

class MeasuredController {
 public:
  struct Options {
    ClusterSize size;
    int64_t device_memory = 0;  // 0: not limited
    std::string policy = "fifo";
    WorkerConnector* connector = nullptr;
    std::vector<std::string> command_addresses;  // of every worker
  };
  explicit MeasuredController(const Options& options);
  ~MeasuredController();

  // Compiles programs of `arrays` arrays and makes the first state: one launch, sent once all workers are connected.
  void Prepare(int arrays);
  // One launch and, where `drops`, one delete.
  void Step(bool drops = true);
  // Returns when all launches have ended.
  void AwaitEnd();
  // Returns when no more than `launches` are under way.
  void AwaitBelow(size_t launches);
  // Returns when the state has been computed, as block_until_ready does.
  void AwaitState();
  uint64_t launches() const { return launches_; }

 private:
  uint64_t Compile(const std::string& name, int parameters, int results);

  const ClusterSize size_;
  ThreadPool pool_{"controller", 4};  // as many as a proxy's
  FakeResourceManager resource_manager_;
  FakeCompileService compiler_;
  std::unique_ptr<ControllerImpl> controller_;
  std::unique_ptr<Session> session_;
  uint64_t step_ = 0;  // executable
  uint64_t last_array_ = 0;
  std::vector<ArrayId> state_;
  uint64_t launches_ = 0;
};

}  // namespace switchtower::bench
