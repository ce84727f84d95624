// The controller with real workers in one process: fake engines and fabric, no sockets, no compiler.
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"
#include "transport/inprocess_fabric.h"
#include "worker/agent/worker.h"
#include "worker/engine/fake_engine.h"
#include "worker_api/in_process_channel.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string AsBytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
std::vector<float> AsFloats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Starts a worker for each incarnation that the controller connects to.
class InProcessConnector : public WorkerConnector {
 public:
  struct Node {
    Node(InProcessNetwork& network, WorkerId id)
        : fabric(network.NewEndpoint()), router(*fabric), worker({id, &engine, &router, nullptr}) {
      worker.Start();
    }
    FakeEngine engine{2};
    std::unique_ptr<Fabric> fabric;
    PeerRouter router;
    Worker worker;
  };
  explicit InProcessConnector(ThreadPool& pool) : pool_(pool) {}

  void Connect(WorkerConnectRequest request, Done done) override {
    InProcessLink link = MakeInProcessLink(pool_);
    {
      MutexLock lock(mutex_);
      if (dead_.contains(request.worker.id)) {
        link.channel.reset();
      } else {
        std::unique_ptr<Node>& node = nodes_[request.worker.id];
        if (node == nullptr) node = std::make_unique<Node>(network_, request.worker.id);
        node->worker.Attach(link.port);
      }
    }
    changed_.NotifyAll();
    if (link.channel == nullptr) {
      done(absl::UnavailableError("no such process"));
    } else {
      done(std::move(link.channel));
    }
  }
  Node& Await(WorkerId id) {
    MutexLock lock(mutex_);
    while (!nodes_.contains(id)) changed_.Wait(mutex_);
    return *nodes_[id];
  }
  void Kill(WorkerId id) {
    std::unique_ptr<Node> node;
    {
      MutexLock lock(mutex_);
      dead_[id] = true;
      node = std::move(nodes_[id]);
      nodes_.erase(id);
    }
    network_.Kill(id);
    node->engine.Release();
    node->worker.Stop();
  }

 private:
  ThreadPool& pool_;
  InProcessNetwork network_;
  Mutex mutex_;
  CondVar changed_;
  std::map<WorkerId, std::unique_ptr<Node>> nodes_ GUARDED_BY(mutex_);
  std::map<WorkerId, bool> dead_ GUARDED_BY(mutex_);
};

class WorkerIntegrationTest : public ControllerTest {
 protected:
  void SetUp() override {
    compiler.Register("add_one", TestProgram("add_one", 4, 1, 1, {0}));
    compiler.Register("fail", TestProgram("fail", 1, 1, 1));
    compiler.Register("identity", TestProgram("identity", 1, 1, 1));
    AddWorkers();
    ControllerImpl::Options options = Options();
    options.connector = &real;
    controller = std::make_unique<ControllerImpl>(std::move(options));
    session = *Open();
    nodes = {&real.Await(ids[0]), &real.Await(ids[1])};
  }
  void TearDown() override {
    sessions.clear();
    controller.reset();
  }
  // For what comes with later events; false after 20 s.
  static bool Eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  absl::Status PutFloats(uint64_t id, const ArraySpec& spec, const std::vector<std::vector<float>>& shards) {
    std::vector<HostShard> host;
    for (size_t i = 0; i < shards.size(); ++i) {
      host.push_back(
          {{static_cast<int32_t>(i)}, std::make_shared<FullBuffer>(std::vector<std::string>{AsBytes(shards[i])}), {}});
    }
    return session->MakeArray(ArrayId{id}, spec, std::move(host), 5);
  }
  // The shards of an array, one after the other.
  absl::StatusOr<std::vector<float>> ReadAll(uint64_t id, int shards) {
    std::vector<ArrayId> parts;
    for (int i = 0; i < shards; ++i) parts.push_back(ArrayId{session->NewHandle()});
    absl::Status status = session->Disassemble(ArrayId{id}, parts, CopySemantics::kReuseInput, 0);
    if (!status.ok()) return status;
    std::string bytes;
    for (ArrayId part : parts) {
      absl::StatusOr<std::string> shard = ReadLater(part.value).get();
      if (!shard.ok()) return shard.status();
      bytes += *shard;
    }
    EXPECT_TRUE(session->Destruct(parts).ok());
    return AsFloats(bytes);
  }

  InProcessConnector real{pool};
  std::vector<InProcessConnector::Node*> nodes;
};

TEST_F(WorkerIntegrationTest, AChainOfDonatingSteps) {
  const uint64_t add_one = Compile("add_one", {0, 1, 2, 3});
  ASSERT_TRUE(PutFloats(1, TiledSpec({8}, {0, 1, 2, 3}), {{0, 1}, {2, 3}, {4, 5}, {6, 7}}).ok());
  for (uint64_t i = 1; i <= 50; ++i) {
    ASSERT_TRUE(Execute(add_one, {i}, {i + 1}).ok());
    ASSERT_TRUE(session->Destruct(std::vector<ArrayId>{{i}}).ok());
  }
  EXPECT_TRUE(Ready({51}).ok());
  absl::StatusOr<std::vector<float>> values = ReadAll(51, 4);
  ASSERT_TRUE(values.ok()) << values.status().ToString();
  EXPECT_THAT(*values, ElementsAre(50, 51, 52, 53, 54, 55, 56, 57));
  EXPECT_TRUE(Eventually([&] { return session->under_way() == 0; }));
  // Nothing is left of it when the session ends.
  session->Close(absl::OkStatus());
  for (InProcessConnector::Node* node : nodes) {
    EXPECT_TRUE(Eventually([&] { return node->engine.live_buffers() == 0; }));
  }
}

TEST_F(WorkerIntegrationTest, ArraysMoveBetweenDevicesAndShardings) {
  ASSERT_TRUE(PutFloats(1, TiledSpec({8}, {0, 1, 2, 3}), {{0, 1}, {2, 3}, {4, 5}, {6, 7}}).ok());
  const ArrayId source{1}, replicated{2}, reversed{3}, again{4}, hosted{5};
  const ArraySpec whole = ReplicatedSpec({8}, {3, 0});
  ASSERT_TRUE(session->Reshard({&source, 1}, {&replicated, 1}, {&whole, 1}, CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(AsFloats(*ReadLater(2).get()), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  ASSERT_TRUE(
      session->Copy({&source, 1}, {&reversed, 1}, Devices({3, 2, 1, 0}), std::nullopt, CopySemantics::kAlwaysCopy, 0)
          .ok());
  EXPECT_THAT(*ReadAll(3, 4), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const ArraySpec two = TiledSpec({8}, {1, 2});
  ASSERT_TRUE(session->Reshard({&replicated, 1}, {&again, 1}, {&two, 1}, CopySemantics::kDonateInput, 0).ok());
  EXPECT_THAT(*ReadAll(4, 2), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  ASSERT_TRUE(session->Copy({&source, 1}, {&hosted, 1}, {}, "pinned_host", CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(*ReadAll(5, 4), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  // Bytes seen as another type go over the controller.
  ASSERT_TRUE(PutFloats(6, TiledSpec({1}, {2}), {{1.0f}}).ok());
  ArraySpec as_bytes = TiledSpec({4}, {2});
  as_bytes.shape.dtype = DType::kU8;
  const ArrayId one{6}, bytes{7};
  ASSERT_TRUE(session->Bitcast({&one, 1}, {&bytes, 1}, {&as_bytes, 1}, CopySemantics::kReuseInput, 0).ok());
  EXPECT_EQ(*ReadLater(7).get(), AsBytes({1.0f}));
}

TEST_F(WorkerIntegrationTest, AFailedProgramIsTheErrorOfAllThatFollows) {
  const uint64_t fail = Compile("fail", {2}), identity = Compile("identity", {2});
  ASSERT_TRUE(PutFloats(1, TiledSpec({8}, {2}), {std::vector<float>(8)}).ok());
  ASSERT_TRUE(Execute(fail, {1}, {2}, 42).ok());
  ASSERT_TRUE(Execute(identity, {2}, {3}, 43).ok());
  absl::Status ready = Ready({3});
  EXPECT_THAT(std::string(ready.message()), HasSubstr("fake program failed"));
  EXPECT_EQ(ContextOf(ready), 42u);
  ready = ReadLater(3).get().status();
  EXPECT_THAT(std::string(ready.message()), HasSubstr("fake program failed"));
  EXPECT_EQ(ContextOf(ready), 42u);
  EXPECT_TRUE(Ready({1}).ok());
}

TEST_F(WorkerIntegrationTest, AKilledWorkerHarmsOnlyWhatTouchedItAndComesBack) {
  const uint64_t add_one = Compile("add_one", {0, 1, 2, 3});
  ASSERT_TRUE(PutFloats(1, TiledSpec({8}, {0, 1, 2, 3}), {{0, 1}, {2, 3}, {4, 5}, {6, 7}}).ok());
  ASSERT_TRUE(PutFloats(2, TiledSpec({2}, {0}), {{8, 9}}).ok());
  ASSERT_TRUE(PutFloats(3, TiledSpec({8}, {3}), {std::vector<float>(8, 1)}).ok());
  ASSERT_TRUE(Ready({1, 2, 3}).ok());
  // A transfer that waits for a value on the worker to be killed.
  nodes[1]->engine.Hold();
  ASSERT_TRUE(Execute(Compile("identity", {3}), {3}, {4}).ok());
  const ArrayId pending{4}, moved{5};
  ASSERT_TRUE(
      session->Copy({&pending, 1}, {&moved, 1}, Devices({0}), std::nullopt, CopySemantics::kReuseInput, 0).ok());
  auto ready = WhenReady({5});
  Settle();
  real.Kill(ids[1]);
  absl::Status lost = ready.get();
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss) << lost.ToString();
  EXPECT_TRUE(Eventually([&] { return !Ready({1}).ok(); }));
  EXPECT_EQ(Ready({1}).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(AsFloats(*ReadLater(2).get()), ElementsAre(8, 9));
  EXPECT_EQ(Execute(add_one, {1}, {10}).status().code(), absl::StatusCode::kDataLoss);
  const WorkerId reborn = rm.AddWorker(1, 0, Type());
  real.Await(reborn);
  Settle();
  absl::Status put = PutFloats(6, TiledSpec({8}, {0, 1, 2, 3}), {{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  ASSERT_TRUE(put.ok()) << put.ToString();
  ASSERT_TRUE(Execute(add_one, {6}, {11}).ok());
  EXPECT_THAT(*ReadAll(11, 4), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

}  // namespace
}  // namespace switchtower
