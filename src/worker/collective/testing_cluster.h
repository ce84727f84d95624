// Several worker processes' collective engines in one test process, over the in-process fabric.
//
// Place:    worker/collective, tests alone.
// Threads:  the test's thread; outcomes come from the engines' threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/inprocess_fabric.h"
#include "worker/collective/exchange_engine.h"

namespace switchtower {

// The outcome of one Join.
class JoinOutcome {
 public:
  void Set(absl::Status status) {
    MutexLock lock(mutex_);
    ++calls_;
    status_ = std::move(status);
    changed_.NotifyAll();
  }
  // DeadlineExceeded if nothing comes.
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (calls_ == 0) {
      if (!changed_.WaitFor(mutex_, std::chrono::seconds(20))) return absl::DeadlineExceededError("no outcome");
    }
    return *status_;
  }
  bool pending() {
    MutexLock lock(mutex_);
    return calls_ == 0;
  }
  int calls() {
    MutexLock lock(mutex_);
    return calls_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int calls_ = 0;
  std::optional<absl::Status> status_;
};

class TestCluster {
 public:
  struct Process {
    WorkerId worker;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<PeerRouter> router;
    std::unique_ptr<ExchangeEngine> engine;
    std::shared_ptr<GangTable> gang;
  };

  // `process_of[rank]`: where each rank lives.
  explicit TestCluster(std::vector<int> process_of, ExchangeEngine::Options options = {.threads = 2})
      : process_of_(std::move(process_of)) {
    int count = 0;
    for (int p : process_of_) count = std::max(count, p + 1);
    PeerTable table;
    for (int p = 0; p < count; ++p) {
      Process& process = processes_.emplace_back();
      process.worker = WorkerId{100 + static_cast<uint64_t>(p)};
      process.fabric = network_.NewEndpoint();
      process.router = std::make_unique<PeerRouter>(*process.fabric);
      process.engine = std::make_unique<ExchangeEngine>(*process.fabric, options);
      process.router->SetHandler(PeerMessageKind::kCollective, process.engine.get());
      process.router->Start(process.worker);
      PeerEndpoint endpoint = process.fabric->endpoint();
      endpoint.secret = "secret of the lease";
      table[process.worker] = endpoint;
    }
    for (Process& process : processes_) {
      process.fabric->SetPeers(table);
      process.gang = std::make_shared<GangTable>();
      process.gang->self = process.worker;
      for (int p : process_of_) process.gang->ranks.push_back({processes_[p].worker, 0});
    }
  }
  ~TestCluster() {
    for (Process& process : processes_) process.fabric->Stop();
  }

  int ranks() const { return static_cast<int>(process_of_.size()); }
  std::vector<Process>& processes() { return processes_; }
  Process& of(int rank) { return processes_[process_of_[rank]]; }
  InProcessNetwork& network() { return network_; }

  void Begin(LaunchId launch) {
    for (Process& process : processes_) process.engine->LaunchBegins(launch, process.gang);
  }
  void End(LaunchId launch) {
    for (Process& process : processes_) process.engine->LaunchEnded(launch);
  }

 private:
  const std::vector<int> process_of_;
  InProcessNetwork network_;
  std::vector<Process> processes_;
};

// One collective over all groups of a cluster, as a test describes it.
struct TestCollective {
  CollectiveShape shape;
  std::vector<std::vector<int64_t>> groups;  // of ranks
  LaunchId launch{1, 1};
  uint32_t op_id = 1;
  uint32_t iteration = 0;
};

// Buffers and outcomes of all ranks; those of a rank that waits outlive the run.
struct TestRun {
  struct Rank {
    std::vector<std::vector<char>> operands, results;
    JoinOutcome outcome;
  };
  std::vector<std::shared_ptr<Rank>> ranks;
};

using FillFn = std::function<void(int rank, int operand, std::vector<char>& bytes)>;

inline TestRun MakeRun(const TestCluster& cluster, const CollectiveShape& shape, const FillFn& fill) {
  TestRun run;
  for (int rank = 0; rank < cluster.ranks(); ++rank) {
    auto& buffers = *run.ranks.emplace_back(std::make_shared<TestRun::Rank>());
    for (size_t k = 0; k < shape.operands.size(); ++k) {
      fill(rank, static_cast<int>(k), buffers.operands.emplace_back(shape.operands[k].bytes()));
    }
    for (const auto& result : shape.results) buffers.results.emplace_back(result.bytes(), '\x5a');
  }
  return run;
}

inline void JoinRank(TestCluster& cluster, const TestCollective& collective, TestRun& run, int rank) {
  TestCluster::Process& process = cluster.of(rank);
  MemberCall call;
  call.launch = collective.launch;
  call.op_id = collective.op_id;
  call.iteration = collective.iteration;
  call.shape = collective.shape;
  for (size_t g = 0; g < collective.groups.size(); ++g) {
    const auto& group = collective.groups[g];
    const auto it = std::find(group.begin(), group.end(), rank);
    if (it == group.end()) continue;
    call.group = static_cast<uint32_t>(g);
    call.position = static_cast<int>(it - group.begin());
    call.plan = process.engine->Plan(process.gang, group).value();
  }
  if (call.plan == nullptr) return;
  TestRun::Rank& buffers = *run.ranks[rank];
  for (auto& operand : buffers.operands) call.operands.push_back(operand.data());
  for (auto& result : buffers.results) call.results.push_back(result.data());
  call.done = [rank = run.ranks[rank]](absl::Status status) { rank->outcome.Set(std::move(status)); };
  process.engine->Join(std::move(call));
}

}  // namespace switchtower
