// How idle devices are while a client's chain of steps runs: the real controller over modelled workers, on a simulated
// clock that goes on by what the controller's own work takes this machine. Prints a JSON line for each case.
//
//   simulated_dispatch [--workers 4,64] [--devices 1] [--launch-us 100,500,5000,20000] [--policy fifo,share,pipeline]
//                      [--ahead 1024] [--latency-us 50] [--steps 2000]
//
// Each step is one launch of a program over all devices, from the result of the step before; the gang meets in a
// collective, the client drops what it doesn't need. The client is modelled as one that sends a step each 20 us and is
// held back where the door would.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "controller/sim/sim_cluster.h"

namespace switchtower {
namespace {

struct Case {
  int32_t workers = 4;
  int64_t launch_us = 5000;
  std::string policy = "fifo";
  bool wait_for_each = false;  // the client sends a step only when the one before is ready: no dispatch ahead
};
struct Settings {
  std::vector<int32_t> workers = {4, 64};
  int32_t devices = 1;  // of each worker
  std::vector<int64_t> launch_us = {100, 500, 5'000, 20'000};
  std::vector<std::string> policies = {"fifo", "share", "pipeline"};
  int32_t ahead = 1024;  // launches under way at most, of the client and on a device
  int64_t latency_us = 50;
  uint64_t steps = 2000;
};

class Chain {
 public:
  Chain(const Settings& settings, const Case& one)
      : settings_(settings), case_(one), cluster_(OptionsFor(settings, one)) {
    const std::vector<uint64_t> devices = Devices();
    const int32_t ranks = cluster_.num_devices();
    cluster_.Register("step", ranks, 1, 1, {}, ranks);
    session_ = cluster_.Open();
    executable_ = cluster_.Compile(*session_, "step", devices);
    std::vector<HostShard> shards;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      shards.push_back({{rank}, std::make_shared<FullBuffer>(std::vector<std::string>{std::string(4, 'x')}), {}});
    }
    session_->MakeArray(ArrayId{1}, TiledSpec({ranks}, devices), std::move(shards), 0).IgnoreError();
  }
  ~Chain() { session_->Close(absl::OkStatus()); }

  void Run() {
    // The steps that load the program and, for a policy that measures, teach it how long they take.
    left_ = 50;
    Next();
    cluster_.loop().RunAll();
    for (int32_t host = 0; host < case_.workers; ++host) cluster_.worker(host).ResetUse();
    const int64_t controller_ns = cluster_.controller_ns();
    left_ = settings_.steps;
    Next();
    cluster_.loop().RunAll();
    double idle_max = 0, idle_sum = 0;
    for (int32_t host = 0; host < case_.workers; ++host) {
      const SimWorker::DeviceUse& use = cluster_.worker(host).use(0);
      const auto span = static_cast<double>(use.last_end_ns - use.first_start_ns);
      const double idle = 1 - static_cast<double>(use.busy_ns) / span;
      idle_max = std::max(idle_max, idle);
      idle_sum += idle;
    }
    fmt::print(
        R"({{"workers": {}, "devices": {}, "launch_ms": {:.3f}, "policy": "{}", "ahead": {}, "latency_us": {}, )"
        R"("steps": {}, "device_idle_percent": {:.3f}, "device_idle_percent_max": {:.3f}, )"
        R"("controller_cpu_us_per_launch": {:.2f}}})"
        "\n",
        case_.workers, cluster_.num_devices(), static_cast<double>(case_.launch_us) / 1000, case_.policy,
        case_.wait_for_each ? "false" : "true", settings_.latency_us, settings_.steps, 100 * idle_sum / case_.workers,
        100 * idle_max,
        static_cast<double>(cluster_.controller_ns() - controller_ns) / 1000 / static_cast<double>(settings_.steps));
    std::fflush(stdout);
  }

 private:
  static SimCluster::Options OptionsFor(const Settings& settings, const Case& one) {
    SimCluster::Options options;
    options.fabric.latency_min_ns = options.fabric.latency_max_ns = settings.latency_us * 1000;
    options.fabric.durations_ns = {{"step", one.launch_us * 1000}};
    options.hosts = one.workers;
    options.devices_per_host = settings.devices;
    options.launches_ahead = settings.ahead;
    options.policy = one.policy;
    options.measure_controller = true;
    return options;
  }
  std::vector<uint64_t> Devices() const {
    std::vector<uint64_t> devices;
    for (int32_t i = 0; i < cluster_.num_devices(); ++i) devices.push_back(static_cast<uint64_t>(i));
    return devices;
  }
  void Next() {
    if (left_ == 0) return;
    --left_;
    ExecuteRequest request;
    request.executable = executable_;
    request.arguments = {ArrayId{last_}};
    request.results = {ArrayId{++last_}};
    session_->Execute(request, nullptr).IgnoreError();
    session_->Destruct(request.arguments).IgnoreError();
    const auto again = [this] { cluster_.loop().After(20'000, [this] { Next(); }); };
    if (case_.wait_for_each) {
      session_->WhenReady(request.results, [again](absl::Status) { again(); });
    } else {
      session_->WhenBelow(static_cast<size_t>(settings_.ahead), again);
    }
  }

  const Settings settings_;
  const Case case_;
  SimCluster cluster_;
  std::unique_ptr<Session> session_;
  uint64_t executable_ = 0;
  uint64_t last_ = 1;
  uint64_t left_ = 0;
};

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("How idle modelled devices are behind the real controller");
  app.add_option("--workers", settings.workers, "numbers of workers")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--devices", settings.devices, "devices of a worker")->check(CLI::PositiveNumber);
  app.add_option("--launch-us", settings.launch_us, "how long a step takes a device")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--policy", settings.policies, "fifo, priority, share, pipeline")->delimiter(',');
  app.add_option("--ahead", settings.ahead, "launches under way at most")->check(CLI::PositiveNumber);
  app.add_option("--latency-us", settings.latency_us, "of a message, each way")->check(CLI::NonNegativeNumber);
  app.add_option("--steps", settings.steps, "of each case")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  for (int32_t workers : settings.workers) {
    for (int64_t launch_us : settings.launch_us) {
      for (const std::string& policy : settings.policies) Chain(settings, {workers, launch_us, policy}).Run();
      Chain(settings, {workers, launch_us, "fifo", /*wait_for_each=*/true}).Run();
    }
  }
  return 0;
}

}  // namespace
}  // namespace switchtower

int main(int argc, char** argv) { return switchtower::Main(argc, argv); }
