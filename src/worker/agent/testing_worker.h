// A worker on a fake engine with a controller that the test plays. For tests of this folder.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "transport/inprocess_fabric.h"
#include "worker/agent/worker.h"
#include "worker/engine/fake_engine.h"
#include "worker_api/in_process_channel.h"

namespace switchtower {

// Collectives that only block: a program calls Block and is let go by a cancel.
class FakeCollectives : public CollectiveEngine {
 public:
  static constexpr int64_t kType = 41;

  int64_t user_data_type() const override { return kType; }
  void LaunchBegins(LaunchId launch, std::shared_ptr<const GangTable> gang) override;
  void CancelLaunch(LaunchId launch, absl::Status cause) override;
  void LaunchEnded(LaunchId launch) override;
  void ForgetLost(WorkerId peer) override;
  CollectiveStats stats() const override { return {}; }
  std::vector<PendingCollective> Pending() const override;

  // Waits, as a collective would, until the launch is cancelled; gives the cause with another wording, as the
  // plug-in does.
  absl::Status Block(const EngineUserData& data);
  // Returns once somebody blocks.
  void AwaitBlocked();
  std::vector<LaunchId> ended() const;
  std::vector<WorkerId> forgotten() const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<LaunchId, std::optional<absl::Status>> running_;
  std::vector<WorkerId> forgotten_;
  std::vector<LaunchId> ended_;
  int blocked_ = 0;
};

// The controller's end of a channel: sends commands, waits for their events.
class TestController {
 public:
  explicit TestController(std::unique_ptr<WorkerChannel> channel);
  ~TestController() { channel_->Close(); }

  void Send(WorkerCommand command);
  // Each waits up to 20 s, then gives DEADLINE_EXCEEDED or false.
  absl::Status Await(SessionId session, std::vector<ArrayId> arrays);
  absl::StatusOr<std::string> Read(ArrayKey array, PhysicalDevice device,
                                   std::optional<std::vector<int64_t>> strides = std::nullopt);
  absl::StatusOr<std::string> AwaitRead(uint64_t request);
  bool AwaitWatermark(LaunchId id);
  // Of launches up to the last watermark.
  std::vector<LaunchTimes::Span> times() const;
  std::optional<LaunchFailed> AwaitFailure(LaunchId id);
  std::optional<absl::Status> AwaitClosed();
  std::optional<WorkerStats> AwaitStats(const std::function<bool(const WorkerStats&)>& accept);
  // Asks once.
  WorkerActivity Activity();
  std::vector<LaunchFailed> failures() const;
  int chunks_read() const;
  void Close() { channel_->Close(); }

 private:
  struct Events {
    Mutex mutex;
    CondVar changed;
    std::map<uint64_t, absl::Status> ready;
    std::map<uint64_t, ReadData> reads;  // ended ones, the data put together
    std::map<uint64_t, std::string> partial;
    std::vector<LaunchFailed> failures;
    std::vector<WorkerStats> stats;
    std::vector<LaunchTimes::Span> times;
    std::map<uint64_t, WorkerActivity> activities;
    LaunchId watermark;
    int chunks = 0;
    std::optional<absl::Status> closed;
    void Add(WorkerEvent event);
    bool Wait(const std::function<bool()>& until) REQUIRES(mutex);
  };
  const std::shared_ptr<Events> events_ = std::make_shared<Events>();
  const std::unique_ptr<WorkerChannel> channel_;
  uint64_t next_request_ = 0x7e57'0000'0000'0001;  // no id that a test or a fuzzer gives a command of its own
};

// Workers 1..n of two devices each, connected.
class TestCluster {
 public:
  explicit TestCluster(int workers);
  ~TestCluster();

  struct Node {
    explicit Node(std::unique_ptr<Fabric> fabric_in) : fabric(std::move(fabric_in)), router(*fabric) {}
    WorkerId id;
    FakeEngine engine{2};
    FakeCollectives collectives;
    std::unique_ptr<Fabric> fabric;
    PeerRouter router;
    absl::Status stuck;  // what on_stuck heard, read after Settle
    std::unique_ptr<Worker> worker;
    std::unique_ptr<TestController> controller;
  };
  Node& node(int i) { return *nodes_[i]; }
  TestController& controller(int i) { return *nodes_[i]->controller; }
  PhysicalDevice Device(int node, int32_t ordinal) { return {nodes_[node]->id, ordinal}; }
  void SendAll(const WorkerCommand& command);
  // A new controller for the node; the old one stays, superseded.
  std::unique_ptr<TestController> Connect(int node);
  InProcessNetwork& network() { return network_; }

  // Commands to all workers.
  void DefineGang(uint64_t gang, std::vector<PhysicalDevice> ranks);
  void Load(const std::string& program, uint32_t parameters, uint32_t results);
  void Put(uint64_t array, std::vector<PhysicalDevice> devices, const std::vector<float>& values);
  void Launch(uint64_t number, const std::string& program, uint64_t gang, std::vector<uint64_t> arguments,
              std::vector<uint64_t> results, std::vector<uint32_t> donated = {});
  absl::StatusOr<std::vector<float>> ReadFloats(uint64_t array, PhysicalDevice device);
  absl::Status Status(uint64_t array, PhysicalDevice device);
  // All commands sent to the node so far were taken in.
  void Settle(int node);

  static constexpr SessionId kSession{77};
  static LaunchId Id(uint64_t number) { return {1, number}; }
  static ArrayKey Key(uint64_t array) { return {kSession, {array}}; }

 private:
  int IndexOf(WorkerId id) const;
  ThreadPool pool_{"test", 2};
  InProcessNetwork network_;
  std::vector<std::unique_ptr<Node>> nodes_;
  uint64_t next_stream_ = 1;
};

std::string AsBytes(const std::vector<float>& values);
std::vector<float> AsFloats(const std::string& bytes);
std::shared_ptr<const std::string> Shared(std::string bytes);

}  // namespace switchtower
