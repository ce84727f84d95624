#include "controller/sim/sim_cluster.h"

#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace switchtower {
namespace {

int64_t ThreadCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

DeviceType SimDeviceType() { return DeviceType{"cpu", "cpu", "x86", {"device"}}; }

}  // namespace

SimCluster::SimCluster(Options options)
    : options_(std::move(options)),
      fabric_(options_.fabric),
      poster_(std::make_shared<Poster>([this](Task task) { return RunOnHome(std::move(task)); })) {
  for (int32_t host = 0; host < options_.hosts; ++host) {
    workers_.push_back(
        std::make_unique<SimWorker>(fabric_, WorkerId{static_cast<uint64_t>(host) + 1}, options_.devices_per_host));
  }
  Sequencer::Options sequencer;
  sequencer.connector = this;
  sequencer.unreachable = [](WorkerId) {};
  sequencer.poster = poster_;
  sequencer.losses = losses_;
  sequencer.device_memory = options_.fabric.device_memory;
  sequencer.launches_ahead = options_.launches_ahead;
  absl::StatusOr<std::unique_ptr<LaunchPolicy>> policy = MakeLaunchPolicy(options_.policy);
  CHECK(policy.ok());
  sequencer.policy = *std::move(policy);
  sequencer.clock = [this] { return fabric_.loop.now_ns(); };
  sequencer_ = std::make_unique<Sequencer>(std::move(sequencer));
  port_ = std::make_shared<HomePort>(poster_, *sequencer_, losses_);
  lease_ = Lease();
  sequencer_->OnLease(lease_);
  fabric_.loop.RunAll();
}

SimCluster::~SimCluster() {
  poster_->Detach();
  sequencer_->Stop(absl::CancelledError("the cluster ends"));
}

SeatedLease SimCluster::Lease() {
  SliceInfo slice;
  slice.name = "s0";
  slice.type = fmt::format("cpu:{}x{}", options_.hosts, options_.devices_per_host);
  slice.num_hosts = options_.hosts;
  slice.devices_per_host = options_.devices_per_host;
  for (int32_t host = 0; host < options_.hosts; ++host) {
    WorkerInfo worker;
    worker.id = WorkerId{static_cast<uint64_t>(host) + 1};
    worker.slice = slice.name;
    worker.host_index = host;
    worker.num_devices = options_.devices_per_host;
    worker.device_type = SimDeviceType();
    slice.workers.push_back(std::move(worker));
  }
  LeaseState state;
  state.id = 1;
  state.version = 1;
  state.home_epoch = 1;
  state.slices = {std::move(slice)};
  return seats_.Seat(std::move(state));
}

void SimCluster::Connect(WorkerConnectRequest request, Done done) {
  done(workers_[request.worker.id.value - 1]->NewChannel());
}

bool SimCluster::RunOnHome(Task task) {
  home_tasks_.push_back(std::move(task));
  if (home_tasks_.size() == 1) fabric_.loop.At(home_free_ns_, [this] { RunNextOnHome(); });
  return true;
}

// One task after the other, each for as long as it takes: what comes meanwhile waits.
void SimCluster::RunNextOnHome() {
  const int64_t begin_ns = options_.measure_controller ? ThreadCpuNs() : 0;
  home_tasks_.front()();
  const int64_t took_ns = options_.measure_controller ? ThreadCpuNs() - begin_ns : 0;
  controller_ns_ += took_ns;
  home_free_ns_ = fabric_.loop.now_ns() + took_ns;
  home_tasks_.pop_front();
  if (!home_tasks_.empty()) fabric_.loop.At(home_free_ns_, [this] { RunNextOnHome(); });
}

std::unique_ptr<Session> SimCluster::Open(SessionStanding standing) {
  SessionImpl::Options options;
  options.devices = DeviceTable(lease_.slices, SimDeviceType().memory_kinds);
  options.description.id = SessionId{++sessions_};
  options.device_type = SimDeviceType();
  options.home = port_;
  options.compiler = &compiler_;
  options.peer = fmt::format("client {}", sessions_);
  options.standing = standing;
  return std::make_unique<SessionImpl>(std::move(options));
}

void SimCluster::Register(const std::string& name, int ranks, int parameters, int results,
                          std::vector<int32_t> donatable, int64_t elements, int64_t temporaries) {
  std::shared_ptr<CompiledProgram> program =
      TestProgram(name, ranks, parameters, results, std::move(donatable), {elements});
  program->info.memory.temporaries = temporaries;
  fabric_.result_bytes[name] = elements / ranks * static_cast<int64_t>(sizeof(uint32_t));
  compiler_.Register(name, std::move(program));
}

uint64_t SimCluster::Compile(Session& session, const std::string& name, const std::vector<uint64_t>& devices) {
  uint64_t handle = 0;
  session.Compile(name, OptionsFor(devices), 0, [&](absl::StatusOr<CompileReply> reply) {
    CHECK(reply.ok());
    handle = reply->executable;
  });
  return handle;
}

}  // namespace switchtower
