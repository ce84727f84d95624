// Programs that call their client, and what devices hold, over fake workers.
#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"

namespace switchtower {
namespace {

class FakeServer : public ClientCallServer {
 public:
  void OnCall(ClientCall call) override {
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
  }
  std::shared_ptr<const void> Hold(absl::Span<const uint64_t> callbacks) override {
    MutexLock lock(mutex_);
    holds_ += static_cast<int>(callbacks.size());
    return std::shared_ptr<const void>(this, [this, count = callbacks.size()](const void*) {
      MutexLock lock(mutex_);
      holds_ -= static_cast<int>(count);
    });
  }
  std::vector<ClientCall> Take() {
    MutexLock lock(mutex_);
    return std::exchange(calls_, {});
  }
  int holds() {
    MutexLock lock(mutex_);
    return holds_;
  }

 private:
  Mutex mutex_;
  std::vector<ClientCall> calls_ GUARDED_BY(mutex_);
  int holds_ GUARDED_BY(mutex_) = 0;
};

class ControllerCallsTest : public ControllerTest {
 protected:
  // A launch of a program on devices 2 and 3 (worker 1) that stays in flight.
  Launch Run() {
    connector.set_automatic(false);
    auto program = TestProgram("calls", 2, 0, 1);
    program->info.host_callbacks = {4, 7};
    compiler.Register("calls", program);
    StartAll();
    session->ServeCalls(server);
    executable = Compile("calls", {3, 2});
    EXPECT_TRUE(Execute(executable, {}, {}).ok());
    return workers[1]->Await<Launch>();
  }
  HostCall Call(const Launch& launch) {
    HostCall call;
    call.request = RequestId{12};
    call.launch = launch.id;
    call.session = launch.session;
    call.rank = 1;
    call.callback = 7;
    call.operands = {Shape{DType::kF32, {1}}};
    call.data = std::make_shared<const std::string>("1234");
    return call;
  }
  const std::shared_ptr<FakeServer> server = std::make_shared<FakeServer>();
  uint64_t executable = 0;
};

TEST_F(ControllerCallsTest, ACallGoesToItsSessionAndTheAnswerBack) {
  const Launch launch = Run();
  workers[1]->Emit(Call(launch));
  Settle();
  std::vector<ClientCall> calls = server->Take();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].callback, 7u);
  EXPECT_EQ(calls[0].device, DeviceId{2});
  EXPECT_EQ(*calls[0].data, "1234");
  calls[0].answer(std::make_shared<const std::string>("results"));
  const ReturnHostCall answer = workers[1]->Await<ReturnHostCall>();
  EXPECT_EQ(answer.request, RequestId{12});
  EXPECT_EQ(*answer.data, "results");
  EXPECT_TRUE(workers[0]->All<ReturnHostCall>().empty());
}

TEST_F(ControllerCallsTest, AWorkerCantReachASessionThatItDoesntWorkFor) {
  const Launch launch = Run();
  Session* other = *Open();
  auto others = std::make_shared<FakeServer>();
  other->ServeCalls(others);
  Settle();
  HostCall foreign = Call(launch);
  foreign.session = other->description().id;
  workers[1]->Emit(foreign);
  HostCall ended = Call(launch);
  ended.launch.number += 100;
  workers[1]->Emit(ended);
  HostCall no_rank = Call(launch);
  no_rank.rank = 2;
  workers[1]->Emit(no_rank);
  EXPECT_FALSE(workers[1]->Await<ReturnHostCall>(3).status.ok());
  EXPECT_TRUE(others->Take().empty());
  EXPECT_TRUE(server->Take().empty());
}

TEST_F(ControllerCallsTest, FunctionsAreHeldUntilTheLastLaunchOfADestructedExecutable) {
  const Launch launch = Run();
  EXPECT_EQ(server->holds(), 2);
  ASSERT_TRUE(session->DestructExecutable(executable).ok());
  Settle();
  EXPECT_EQ(server->holds(), 2);
  workers[1]->Emit(Watermark{launch.id});
  Settle();
  EXPECT_EQ(server->holds(), 0);
}

TEST_F(ControllerCallsTest, MemoryIsWhatTheWorkersSay) {
  StartAll(/*device_memory=*/1 << 20);
  std::promise<std::vector<DeviceMemory>> told;
  session->MemorySource()([&](std::vector<DeviceMemory> memory) { told.set_value(std::move(memory)); });
  const RequestId first = workers[0]->Await<AskMemory>().request, second = workers[1]->Await<AskMemory>().request;
  workers[1]->Emit(MemoryInUse{second, {{10, 20}, {30, 40}}});
  workers[1]->Emit(MemoryInUse{second, {{0, 0}, {0, 0}}});  // asked for once
  workers[0]->Emit(MemoryInUse{first, {{1, 2}}});           // one device short
  const std::vector<DeviceMemory> memory = told.get_future().get();
  ASSERT_EQ(memory.size(), 3u);
  EXPECT_EQ(memory[0].device, DeviceId{0});
  EXPECT_EQ(memory[2].device, DeviceId{3});
  EXPECT_EQ(memory[2].bytes_in_use, 30);
  EXPECT_EQ(memory[2].peak_bytes_in_use, 40);
  EXPECT_EQ(memory[2].bytes_limit, 1 << 20);
}

TEST_F(ControllerCallsTest, AWorkerThatIsNotInYetHoldsNothing) {
  StartController(/*device_memory=*/1 << 20);
  Session* early = *Open();
  std::promise<std::vector<DeviceMemory>> told;
  early->MemorySource()([&](std::vector<DeviceMemory> memory) { told.set_value(std::move(memory)); });
  const std::vector<DeviceMemory> memory = told.get_future().get();
  ASSERT_EQ(memory.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(memory[i].device, DeviceId{i});
    EXPECT_EQ(memory[i].bytes_in_use, 0);
    EXPECT_EQ(memory[i].bytes_limit, 1 << 20);
  }
}

TEST_F(ControllerCallsTest, ALostWorkersDevicesAreLeftOut) {
  StartAll();
  std::promise<std::vector<DeviceMemory>> told;
  session->MemorySource()([&](std::vector<DeviceMemory> memory) { told.set_value(std::move(memory)); });
  workers[0]->Emit(MemoryInUse{workers[0]->Await<AskMemory>().request, {{1, 2}, {3, 4}}});
  workers[1]->Await<AskMemory>();
  workers[1]->Break(absl::UnavailableError("gone"));
  EXPECT_EQ(told.get_future().get().size(), 2u);
}

}  // namespace
}  // namespace switchtower
