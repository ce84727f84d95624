// What policies do to whole runs: shares of device time, waiting under a flood, the length of a pipelined step.
#include <gtest/gtest.h>

#include "controller/sim/sim_cluster.h"

namespace switchtower {
namespace {

constexpr int64_t kMs = 1'000'000, kElements = 12;

// A client that runs one program over and over, each step from the result of the one before.
class ChainClient {
 public:
  ChainClient(SimCluster& cluster, std::string program, std::vector<uint64_t> devices, SessionStanding standing,
              size_t ahead = 64)
      : cluster_(cluster), ahead_(ahead), session_(cluster.Open(standing)) {
    executable_ = cluster.Compile(*session_, program, devices);
    std::vector<HostShard> shards;
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      const std::string bytes(kElements / devices.size() * 4, 'x');
      shards.push_back(
          {{static_cast<int32_t>(rank)}, std::make_shared<FullBuffer>(std::vector<std::string>{bytes}), {}});
    }
    EXPECT_TRUE(session_->MakeArray(ArrayId{1}, TiledSpec({kElements}, devices), std::move(shards), 0).ok());
    cluster.loop().Post([this] { Run(); });
  }
  ~ChainClient() {
    stopping_ = true;
    session_->Close(absl::OkStatus());
  }
  SessionId id() const { return session_->description().id; }
  void Stop() { stopping_ = true; }

 private:
  void Run() {
    if (stopping_) return;
    for (int i = 0; i < 4; ++i) {
      ExecuteRequest request;
      request.executable = executable_;
      request.arguments = {ArrayId{last_}};
      request.results = {ArrayId{last_ + 1}};
      EXPECT_TRUE(session_->Execute(request, nullptr).ok());
      EXPECT_TRUE(session_->Destruct(request.arguments).ok());
      ++last_;
    }
    if (session_->under_way() < ahead_) {
      cluster_.loop().After(20'000, [this] { Run(); });
    } else {
      session_->WhenBelow(ahead_, [this] { cluster_.loop().After(20'000, [this] { Run(); }); });
    }
  }
  SimCluster& cluster_;
  const size_t ahead_;
  std::unique_ptr<Session> session_;
  uint64_t executable_ = 0;
  uint64_t last_ = 1;
  bool stopping_ = false;
};

SimCluster::Options TwoHosts(const std::string& policy, std::map<std::string, int64_t> durations_ns) {
  SimCluster::Options options;
  options.fabric.latency_min_ns = 50'000;
  options.fabric.latency_max_ns = 150'000;
  options.fabric.duration_jitter = 0.2;
  options.fabric.durations_ns = std::move(durations_ns);
  options.hosts = 2;
  options.devices_per_host = 1;
  options.policy = policy;
  return options;
}

// 10 s of four clients on the same two devices. What each had of the device time, and how much was idle.
std::vector<double> Shares(const std::vector<int32_t>& weights, const std::vector<int64_t>& launch_ns) {
  SimCluster cluster(
      TwoHosts("share", {{"a", launch_ns[0]}, {"b", launch_ns[1]}, {"c", launch_ns[2]}, {"d", launch_ns[3]}}));
  std::vector<std::unique_ptr<ChainClient>> clients;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string program(1, static_cast<char>('a' + i));
    cluster.Register(program, 2, 1, 1, {}, kElements);
    clients.push_back(std::make_unique<ChainClient>(cluster, program, std::vector<uint64_t>{0, 1},
                                                    SessionStanding{.weight = weights[i]}));
  }
  const int64_t begin_ns = cluster.loop().now_ns();
  cluster.loop().RunUntil(begin_ns + 10'000 * kMs);
  const SimWorker::DeviceUse use = cluster.worker(0).use(0);
  EXPECT_GT(use.busy_ns, 9'800 * kMs);  // late choice costs little
  std::vector<double> shares;
  for (const auto& client : clients) {
    shares.push_back(static_cast<double>(use.busy_ns_of.at(client->id())) / static_cast<double>(use.busy_ns));
  }
  return shares;
}

TEST(SharePolicyTest, EqualWeightsGetEqualDeviceTime) {
  for (double share : Shares({1, 1, 1, 1}, {5 * kMs, 5 * kMs, 5 * kMs, 5 * kMs})) EXPECT_NEAR(share, 0.25, 0.25 * 0.05);
  for (double share : Shares({1, 1, 1, 1}, {1 * kMs, 12 * kMs, 3 * kMs, 500'000}))
    EXPECT_NEAR(share, 0.25, 0.25 * 0.05);
}

TEST(SharePolicyTest, DeviceTimeFollowsTheWeights) {
  for (const std::vector<int64_t>& launch_ns : {std::vector<int64_t>{5 * kMs, 5 * kMs, 5 * kMs, 5 * kMs},
                                                std::vector<int64_t>{10 * kMs, 2 * kMs, 6 * kMs, 1 * kMs}}) {
    const std::vector<double> shares = Shares({1, 2, 4, 8}, launch_ns);
    for (size_t i = 0; i < 4; ++i) {
      const double fair = static_cast<double>(1 << i) / 15;
      EXPECT_NEAR(shares[i], fair, fair * 0.05) << i;
    }
  }
}

// Two sessions on one device of a worker whose other device runs for very long: the watermark stands still, the
// shares don't.
TEST(SharePolicyTest, ALongLaunchOnAnotherDeviceDoesntStopTheShares) {
  SimCluster::Options options = TwoHosts("share", {{"long", 4'000 * kMs}, {"step", 2 * kMs}});
  options.hosts = 1;
  options.devices_per_host = 2;
  SimCluster cluster(options);
  for (const char* name : {"long", "step"}) cluster.Register(name, 1, 1, 1, {}, kElements);
  ChainClient other(cluster, "long", {1}, {});
  ChainClient one(cluster, "step", {0}, {.weight = 1}, 4'000), three(cluster, "step", {0}, {.weight = 3}, 4'000);
  cluster.loop().RunUntil(3'000 * kMs);
  const SimWorker::DeviceUse use = cluster.worker(0).use(0);
  EXPECT_GT(use.busy_ns, 2'800 * kMs);
  EXPECT_NEAR(static_cast<double>(use.busy_ns_of.at(three.id())) / static_cast<double>(use.busy_ns), 0.75, 0.04);
}

TEST(PriorityPolicyTest, AFloodOfLowPriorityHoldsUpAHighOneByAWindowOnly) {
  SimCluster cluster(TwoHosts("priority", {{"low", 1 * kMs}, {"high", 1 * kMs}}));
  for (const char* name : {"low", "high"}) cluster.Register(name, 2, 1, 1, {}, kElements);
  ChainClient low(cluster, "low", {0, 1}, {.priority = -1}, 1'000);
  cluster.loop().RunUntil(500 * kMs);
  const int64_t begin_ns = cluster.loop().now_ns();
  ChainClient high(cluster, "high", {0, 1}, {.priority = 5}, 4);
  cluster.loop().RunUntil(begin_ns + 10 * kMs);
  const auto busy = cluster.worker(0).use(0).busy_ns_of;
  ASSERT_TRUE(busy.contains(high.id()));
  EXPECT_GT(busy.at(high.id()), 2 * kMs);
}

// A step of `micro` micro-batches through `stages` stages, forward then backward of each as a plain loop writes it.
class PipelineRun {
 public:
  PipelineRun(const std::string& policy, uint64_t stages, uint64_t micro) : stages_(stages), micro_(micro) {
    SimCluster::Options options;
    options.fabric.latency_min_ns = options.fabric.latency_max_ns = 50'000;
    options.fabric.durations_ns = {{"forward", 2 * kMs}, {"backward", 2 * kMs}};
    options.hosts = static_cast<int32_t>(stages);
    options.devices_per_host = 1;
    options.policy = policy;
    cluster_ = std::make_unique<SimCluster>(options);
    for (const char* name : {"forward", "backward"}) cluster_->Register(name, 1, 1, 1, {}, kElements);
    session_ = cluster_->Open();
    for (uint64_t stage = 0; stage < stages; ++stage) {
      forward_.push_back(cluster_->Compile(*session_, "forward", {stage}));
      backward_.push_back(cluster_->Compile(*session_, "backward", {stage}));
    }
  }
  ~PipelineRun() { session_->Close(absl::OkStatus()); }

  // `all_forward_first`: the client's loops are written the other way round.
  int64_t StepNs(bool all_forward_first) {
    const int64_t begin_ns = cluster_->loop().now_ns();
    std::vector<uint64_t> last;
    for (uint64_t m = 0; m < micro_; ++m) {
      last.push_back(Forward());
      if (!all_forward_first) Backward(last.back());
    }
    for (uint64_t m = 0; m < micro_ && all_forward_first; ++m) Backward(last[m]);
    cluster_->loop().RunAll();
    EXPECT_EQ(session_->under_way(), 0u);
    return cluster_->loop().now_ns() - begin_ns;
  }

 private:
  uint64_t Move(uint64_t array, uint64_t to) {
    const ArrayId from{array}, moved{++ids_};
    const ArraySpec spec = TiledSpec({kElements}, {to});
    EXPECT_TRUE(session_->Reshard({&from, 1}, {&moved, 1}, {&spec, 1}, CopySemantics::kReuseInput, 0).ok());
    return ids_;
  }
  uint64_t Run(uint64_t executable, uint64_t argument) {
    ExecuteRequest request;
    request.executable = executable;
    request.arguments = {ArrayId{argument}};
    request.results = {ArrayId{++ids_}};
    EXPECT_TRUE(session_->Execute(request, nullptr).ok());
    return ids_;
  }
  uint64_t Forward() {
    const uint64_t input = ++ids_;
    const std::string bytes(kElements * 4, 'x');
    EXPECT_TRUE(session_
                    ->MakeArray(ArrayId{input}, TiledSpec({kElements}, {0}),
                                {{{0}, std::make_shared<FullBuffer>(std::vector<std::string>{bytes}), {}}}, 0)
                    .ok());
    uint64_t value = input;
    for (uint64_t stage = 0; stage < stages_; ++stage) {
      if (stage > 0) value = Move(value, stage);
      value = Run(forward_[stage], value);
    }
    return value;
  }
  void Backward(uint64_t value) {
    for (uint64_t stage = stages_; stage-- > 0;) {
      value = Run(backward_[stage], value);
      if (stage > 0) value = Move(value, stage - 1);
    }
  }

  const uint64_t stages_, micro_;
  std::unique_ptr<SimCluster> cluster_;
  std::unique_ptr<Session> session_;
  std::vector<uint64_t> forward_, backward_;
  uint64_t ids_ = 0;
};

TEST(PipelinePolicyTest, APlainLoopOverMicroBatchesBecomesAPipeline) {
  PipelineRun fifo("fifo", 4, 16), pipeline("pipeline", 4, 16);
  for (int warm = 0; warm < 2; ++warm) pipeline.StepNs(false);
  const int64_t fifo_ns = fifo.StepNs(false), pipeline_ns = pipeline.StepNs(false);
  // One after the other, 16 x 8 launches; ideal were 16 x 2 on each stage and a ramp of 6.
  EXPECT_GT(fifo_ns, 16 * 8 * 2 * kMs * 9 / 10);
  EXPECT_LT(pipeline_ns, (16 * 2 + 6) * 2 * kMs * 14 / 10);
}

TEST(PipelinePolicyTest, IsNoWorseWhereTheClientPipelinesItself) {
  PipelineRun fifo("fifo", 4, 16), pipeline("pipeline", 4, 16);
  for (int warm = 0; warm < 2; ++warm) pipeline.StepNs(true);
  EXPECT_LT(pipeline.StepNs(true), fifo.StepNs(true) * 11 / 10);
}

}  // namespace
}  // namespace switchtower
