// One lease of the proxy and all that works on it: the home strand with its sequencer and workers (S-3).
//
//   resource manager --lease states--> seats --> sequencer (home strand)
//                                           '--> on_change (the controller)
//
// Place:    controller/sessions.
// Threads:  Create and the destructor on the controller's strand; the port from any thread.
// Lifetime: the destructor ends what runs on the lease, releases it and waits for the home strand, which needs
//           another thread of the pool.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/strand.h"
#include "controller/cluster/seat_map.h"
#include "controller/schedule/home_port.h"
#include "controller/schedule/sequencer.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

class Home {
 public:
  struct Options {
    ThreadPool* pool = nullptr;
    ResourceManagerApi* resource_manager = nullptr;
    WorkerConnector* connector = nullptr;
    int64_t device_memory = 0;
    int32_t launches_ahead = LaunchWindow::Limits{}.launches;
    std::string policy = "fifo";  // MakeLaunchPolicy's names
    TraceRecorder* trace = nullptr;
    LeaseRequest request;
    // Each later state of the lease; any thread, must only post.
    std::function<void(SeatedLease)> on_change;
  };
  // Acquires the lease; the first state may come before this returns.
  static absl::StatusOr<std::unique_ptr<Home>> Create(Options options);
  ~Home();
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  void ReportTimes(bool on) {
    poster_->Post([this, on] { sequencer_->ReportTimes(on); });
  }
  const std::shared_ptr<HomePort>& port() const { return port_; }
  void Snapshot(absl::AnyInvocable<void(HomeSnapshot)> done);
  // Asks the workers first and waits for them no longer than `patience`, if there is a `run_after`. `done` is dropped
  // if the home ends meanwhile.
  using RunAfter = std::function<void(std::chrono::milliseconds, Task)>;
  void Inspect(std::chrono::milliseconds patience, const RunAfter& run_after,
               absl::AnyInvocable<void(HomeSnapshot)> done);

 private:
  Home(const Options& options, std::unique_ptr<LaunchPolicy> policy);

  ResourceManagerApi& resource_manager_;
  std::optional<LeaseId> lease_;
  const std::shared_ptr<LossLedger> losses_ = std::make_shared<LossLedger>();
  Strand strand_;
  const std::shared_ptr<Poster> poster_;
  std::unique_ptr<Sequencer> sequencer_;  // home strand
  std::shared_ptr<HomePort> port_;
};

}  // namespace switchtower
