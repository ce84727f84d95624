// Real unix sockets: hellos, fencing, commands and events as frames, the end of a connection.
#include "worker/agent/worker_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/net/framed_connection.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"
#include "worker/agent/testing_worker.h"

namespace switchtower {
namespace {

// A controller's end of the wire, waited for.
class WireController : public FramedConnection::Handler {
 public:
  static std::shared_ptr<WireController> Connect(EventLoop& loop, const std::string& address) {
    auto self = std::make_shared<WireController>();
    absl::StatusOr<UniqueFd> socket = ConnectAndWait(*Address::Parse(address), std::chrono::seconds(10));
    EXPECT_TRUE(socket.ok()) << socket.status();
    self->connection_ = FramedConnection::Create(loop, *std::move(socket), {}, self);
    return self;
  }

  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    if (frame.type == static_cast<uint32_t>(WorkerFrame::kHelloReply)) {
      reply_ = *DecodeHelloReply(frame.body.view());
    } else {
      events_.push_back(*DecodeEvent(frame.body.view()));
    }
    changed_.NotifyAll();
  }
  void OnClosed(absl::Status) override {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

  void Hello(const std::string& secret, uint64_t epoch) {
    ControllerHello hello{kWorkerProtocolVersion, "cluster", WorkerId{1}, secret, epoch, "test"};
    EXPECT_TRUE(connection_->Send(static_cast<uint32_t>(WorkerFrame::kHello), EncodeHello(hello)).ok());
  }
  void Send(const WorkerCommand& command) {
    Payload body(EncodeCommandHead(command));
    if (auto payload = CommandPayload(command)) body.Append(payload);
    (void)connection_->Send(static_cast<uint32_t>(WorkerFrame::kCommand), std::move(body));
  }
  void SendRaw(uint32_t type, std::string bytes) { (void)connection_->Send(type, std::move(bytes)); }

  // OK, the refusal, or UNAVAILABLE if the connection ended without an answer.
  absl::Status Reply() {
    MutexLock lock(mutex_);
    while (!reply_.has_value() && !closed_) changed_.Wait(mutex_);
    return reply_.has_value() ? reply_->status : absl::UnavailableError("closed");
  }
  template <typename T>
  T Next() {
    MutexLock lock(mutex_);
    while (true) {
      for (auto it = events_.begin(); it != events_.end(); ++it) {
        if (!std::holds_alternative<T>(*it)) continue;
        T found = std::get<T>(*it);
        events_.erase(it);
        return found;
      }
      changed_.Wait(mutex_);
    }
  }
  void AwaitClosed() {
    MutexLock lock(mutex_);
    while (!closed_) changed_.Wait(mutex_);
  }
  void Close() { connection_->Close(); }
  const WorkerHelloReply& reply() const { return *reply_; }

 private:
  std::shared_ptr<FramedConnection> connection_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<WorkerHelloReply> reply_;
  std::vector<WorkerEvent> events_;
  bool closed_ = false;
};

class WorkerServerTest : public testing::Test {
 protected:
  WorkerServerTest() {
    loop_ = *EventLoop::Create("test");
    WorkerServerOptions options;
    options.listen = {Address::UniqueAbstract("worker-server-test").ToString()};
    options.device_type = cluster_.node(0).engine.device_type();
    options.num_devices = 2;
    options.check_period = std::chrono::milliseconds(0);
    options.lease_grace = grace_;
    server_ = *WorkerServer::Create(options);
  }
  ~WorkerServerTest() override {
    for (auto& controller : controllers_) controller->Close();
    server_->Stop();
    cluster_.node(0).worker->Stop();
    loop_->Stop();
  }
  void Begin() {
    server_->SetIdentity({1}, "cluster");
    server_->SetAllowedLeases({{"secret", 3}});
    server_->Serve(*cluster_.node(0).worker);
  }
  std::shared_ptr<WireController> Connect() {
    controllers_.push_back(WireController::Connect(*loop_, server_->command_addresses()[0]));
    return controllers_.back();
  }

  const std::chrono::milliseconds grace_{60'000};
  TestCluster cluster_{1};
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<WorkerServer> server_;
  std::vector<std::shared_ptr<WireController>> controllers_;
  const PhysicalDevice d0_{WorkerId{1}, 0};
};

TEST_F(WorkerServerTest, CommandsGoInAndEventsComeOut) {
  Begin();
  auto controller = Connect();
  controller->Hello("secret", 3);
  ASSERT_TRUE(controller->Reply().ok());
  EXPECT_EQ(controller->reply().num_devices, 2);
  EXPECT_EQ(controller->reply().device_type.platform, "fake");
  controller->Send(DefineGang{{1}, {d0_}});
  controller->Send(LoadProgram{{"add_one"}, "add_one", Shared("add_one"), 1, 1});
  PutArray put{TestCluster::Key(1), {d0_}, Shape{DType::kF32, {2}}, {}, Layout::Default(1), "", {1}, 8};
  controller->Send(put);
  controller->Send(StreamChunk{{1}, Shared(AsBytes({1, 2})), true, 1, {}});
  Launch launch;
  launch.id = {3, 1};
  launch.session = TestCluster::kSession;
  launch.program = {"add_one"};
  launch.gang = {1};
  launch.arguments = {{1}};
  launch.results = {{2}};
  controller->Send(launch);
  controller->Send(ReadShard{{5}, TestCluster::Key(2), d0_, std::nullopt});
  controller->Send(AwaitReady{{6}, TestCluster::kSession, {{2}}});
  EXPECT_EQ(AsFloats(*controller->Next<ReadData>().data), (std::vector<float>{2, 3}));
  EXPECT_TRUE(controller->Next<Ready>().status.ok());
  EXPECT_EQ(controller->Next<Watermark>().completed, (LaunchId{3, 1}));
}

TEST_F(WorkerServerTest, ANewerEpochTakesOverAndAnOlderOneStaysOut) {
  Begin();
  auto first = Connect();
  first->Hello("secret", 3);
  ASSERT_TRUE(first->Reply().ok());
  auto second = Connect();
  second->Hello("newer", 4);  // before the worker has heard of the lease
  server_->SetAllowedLeases({{"secret", 3}, {"newer", 4}});
  ASSERT_TRUE(second->Reply().ok());
  first->AwaitClosed();
  auto third = Connect();
  third->Hello("secret", 3);
  EXPECT_EQ(third->Reply().code(), absl::StatusCode::kFailedPrecondition);
  third->AwaitClosed();
  second->Send(AwaitReady{{6}, TestCluster::kSession, {}});
  EXPECT_TRUE(second->Next<Ready>().status.ok());
}

TEST_F(WorkerServerTest, WhatAnOldEpochStillSendsDoesNothing) {
  Begin();
  auto old_home = Connect();
  old_home->Hello("secret", 3);
  ASSERT_TRUE(old_home->Reply().ok());
  server_->SetAllowedLeases({{"newer", 4}});
  // As from a proxy that stood still while its lease ended: it hasn't heard yet.
  old_home->Send(PutArray{TestCluster::Key(1), {d0_}, Shape{DType::kU8, {1}}, {}, Layout::Default(1), "", {1}, 1});
  old_home->Send(StreamChunk{{1}, Shared("x"), true, 1, {}});
  auto new_home = Connect();
  new_home->Hello("newer", 4);
  ASSERT_TRUE(new_home->Reply().ok());
  old_home->AwaitClosed();
  new_home->Send(AwaitReady{{6}, TestCluster::kSession, {{1}}});
  EXPECT_TRUE(new_home->Next<Ready>().status.ok());
  EXPECT_EQ(cluster_.node(0).engine.live_buffers(), 0);
}

TEST_F(WorkerServerTest, AHelloWaitsForTheWorkersRegistration) {
  auto controller = Connect();
  controller->Hello("secret", 3);
  Begin();
  EXPECT_TRUE(controller->Reply().ok());
}

TEST_F(WorkerServerTest, ALeasesEndClosesItsController) {
  Begin();
  auto controller = Connect();
  controller->Hello("secret", 3);
  ASSERT_TRUE(controller->Reply().ok());
  server_->SetAllowedLeases({});
  controller->AwaitClosed();
}

TEST_F(WorkerServerTest, StrangersLoseOnlyTheirOwnConnection) {
  Begin();
  auto good = Connect();
  good->Hello("secret", 3);
  ASSERT_TRUE(good->Reply().ok());
  auto command_first = Connect();
  command_first->Send(EndSession{TestCluster::kSession});
  command_first->AwaitClosed();
  auto nonsense = Connect();
  nonsense->SendRaw(static_cast<uint32_t>(WorkerFrame::kHello), "\xff\xff\xff");
  nonsense->AwaitClosed();
  auto large = Connect();
  large->SendRaw(static_cast<uint32_t>(WorkerFrame::kHello), std::string(1 << 20, 'x'));
  large->AwaitClosed();
  good->Send(AwaitReady{{6}, TestCluster::kSession, {}});
  EXPECT_TRUE(good->Next<Ready>().status.ok());
  good->SendRaw(static_cast<uint32_t>(WorkerFrame::kCommand), "no command");
  good->AwaitClosed();
}

TEST_F(WorkerServerTest, TheEndOfAConnectionFreesItsBuffers) {
  Begin();
  auto controller = Connect();
  controller->Hello("secret", 3);
  ASSERT_TRUE(controller->Reply().ok());
  controller->Send(PutArray{TestCluster::Key(1), {d0_}, Shape{DType::kU8, {1}}, {}, Layout::Default(1), "", {1}, 1});
  controller->Send(StreamChunk{{1}, Shared("x"), true, 1, {}});
  controller->Send(AwaitReady{{6}, TestCluster::kSession, {{1}}});
  EXPECT_TRUE(controller->Next<Ready>().status.ok());
  EXPECT_EQ(cluster_.node(0).engine.live_buffers(), 1);
  controller->Close();
  auto next = Connect();
  next->Hello("secret", 3);
  ASSERT_TRUE(next->Reply().ok());
  next->Send(AwaitReady{{7}, TestCluster::kSession, {{1}}});
  EXPECT_TRUE(next->Next<Ready>().status.ok());  // nothing of that name
  EXPECT_EQ(cluster_.node(0).engine.live_buffers(), 0);
}

}  // namespace
}  // namespace switchtower
