// A home of one slice with modelled workers: the real sequencer and the real sessions over it, on one thread and a
// simulated clock.
//
//   Session --ops--> home strand (an event a task) --> Sequencer --commands--> SimWorkers
//
// Place:    controller/sim; for tests and measurements.
// Threads:  one.
// Lifetime: sessions are closed before the cluster ends.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "controller/cluster/worker_connector.h"
#include "controller/schedule/home_port.h"
#include "controller/schedule/sequencer.h"
#include "controller/sessions/session_impl.h"
#include "controller/sessions/testing_programs.h"
#include "controller/sim/sim_worker.h"

namespace switchtower {

class SimCluster : private WorkerConnector {
 public:
  struct Options {
    SimFabric::Options fabric;
    int32_t hosts = 2;
    int32_t devices_per_host = 2;
    int32_t launches_ahead = LaunchWindow::Limits{}.launches;
    std::string policy = "fifo";
    // The clock goes on by what each task of the home strand takes this machine: the controller's own cost counts.
    bool measure_controller = false;
  };
  explicit SimCluster(Options options);
  ~SimCluster() override;

  SimFabric& fabric() { return fabric_; }
  SimLoop& loop() { return fabric_.loop; }
  Sequencer& sequencer() { return *sequencer_; }
  SimWorker& worker(int32_t host) { return *workers_[host]; }
  int32_t hosts() const { return options_.hosts; }
  int32_t num_devices() const { return options_.hosts * options_.devices_per_host; }

  std::unique_ptr<Session> Open(SessionStanding standing = {});
  // A program of f32[elements] parameters and results cut over its ranks, `donatable` as parameter positions.
  void Register(const std::string& name, int ranks, int parameters, int results, std::vector<int32_t> donatable,
                int64_t elements, int64_t temporaries = 0);
  // The executable's handle.
  uint64_t Compile(Session& session, const std::string& name, const std::vector<uint64_t>& devices);
  // CPU time that the home strand's tasks took.
  int64_t controller_ns() const { return controller_ns_; }

 private:
  void Connect(WorkerConnectRequest request, Done done) override;
  bool RunOnHome(Task task);
  void RunNextOnHome();
  SeatedLease Lease();

  const Options options_;
  SimFabric fabric_;
  FakeCompileService compiler_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  SeatMap seats_;
  SeatedLease lease_;
  const std::shared_ptr<Poster> poster_;
  const std::shared_ptr<LossLedger> losses_ = std::make_shared<LossLedger>();
  std::unique_ptr<Sequencer> sequencer_;
  std::shared_ptr<HomePort> port_;
  uint64_t sessions_ = 0;
  std::deque<Task> home_tasks_;  // the first is running or waits for its moment
  int64_t home_free_ns_ = 0;
  int64_t controller_ns_ = 0;
};

}  // namespace switchtower
