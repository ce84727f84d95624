#include "worker/exec/device_queue.h"

#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "worker/engine/fake_engine.h"

namespace switchtower {
namespace {

class Observer : public LaunchObserver {
 public:
  void OnLaunchFailed(const LaunchState& launch, const absl::Status& cause, bool origin) override {
    MutexLock lock(mutex_);
    EXPECT_EQ(ended_.count(launch.id), 0u);  // E-2
    failed_[launch.id] = cause;
  }
  void OnLaunchEnded(const LaunchState& launch) override {
    MutexLock lock(mutex_);
    EXPECT_EQ(ended_[launch.id]++, 0);
    changed_.NotifyAll();
  }
  void AwaitEnded(LaunchId id) {
    MutexLock lock(mutex_);
    while (ended_.count(id) == 0) changed_.Wait(mutex_);
  }
  bool Ended(LaunchId id) {
    MutexLock lock(mutex_);
    return ended_.count(id) > 0;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<LaunchId, absl::Status> failed_;
  std::map<LaunchId, int> ended_;
};

class DeviceQueueTest : public testing::Test {
 protected:
  ~DeviceQueueTest() override {
    engine_.Release();
    queue_.Stop();
    for (auto& launch : launches_) launch->Release();
  }
  std::shared_ptr<LaunchState> Push(uint64_t number, BufferEntryPtr argument, BufferEntryPtr result,
                                    bool aside = false) {
    auto launch = std::make_shared<LaunchState>(LaunchId{1, number}, SessionId{1}, observer_);
    auto task = std::make_shared<RankTask>(launch, 0, launch->id, 0, nullptr, nullptr, nullptr);
    task->queue = &queue_;
    task->program = program_;
    task->arguments = {std::move(argument)};
    task->results = {std::move(result)};
    task->may_donate = {false};
    task->aside = aside;
    launch->SetTasks({task});
    launches_.push_back(launch);
    queue_.Push(std::move(task));
    return launch;
  }
  BufferEntryPtr Entry() { return std::make_shared<BufferEntry>(usage_); }
  BufferEntryPtr Value() {
    static const float one = 1;
    BufferEntryPtr entry = Entry();
    entry->Fill(*engine_.FromHost(0, "", HostData{&one, nullptr, Shape{DType::kF32, {}}, {}}, std::nullopt), nullptr);
    return entry;
  }
  void Loaded() {
    program_->program = *engine_.LoadProgram("add_one");
    program_->loaded.Set(absl::OkStatus());
  }

  FakeEngine engine_{1};
  const std::shared_ptr<StoreUsage> usage_ = std::make_shared<StoreUsage>();
  const std::shared_ptr<Observer> observer_ = std::make_shared<Observer>();
  const std::shared_ptr<ProgramSlot> program_ = std::make_shared<ProgramSlot>();
  std::vector<std::shared_ptr<LaunchState>> launches_;
  DeviceQueue queue_{engine_, nullptr, 0};
};

TEST_F(DeviceQueueTest, WaitsForProgramAndInputsInOrder) {
  BufferEntryPtr input = Entry(), first = Entry(), second = Entry();
  Push(1, input, first);
  Push(2, Value(), second);
  Loaded();
  EXPECT_FALSE(observer_->Ended({1, 2}));
  static const float value = 4;
  input->Fill(*engine_.FromHost(0, "", HostData{&value, nullptr, Shape{DType::kF32, {}}, {}}, std::nullopt), nullptr);
  observer_->AwaitEnded({1, 2});
  EXPECT_TRUE(observer_->Ended({1, 1}));
  EXPECT_TRUE(second->filled());
}

TEST_F(DeviceQueueTest, OnlySoManyAreInFlight) {
  Loaded();
  engine_.Hold();
  std::vector<BufferEntryPtr> results;
  for (uint64_t i = 1; i <= DeviceQueue::kInFlightMax + 8; ++i) {
    results.push_back(Entry());
    Push(i, Value(), results.back());
  }
  while (engine_.executed().size() < DeviceQueue::kInFlightMax) std::this_thread::yield();
  EXPECT_FALSE(results[DeviceQueue::kInFlightMax]->filled());
  EXPECT_TRUE(results[DeviceQueue::kInFlightMax - 1]->filled());
  engine_.Release();
  observer_->AwaitEnded({1, DeviceQueue::kInFlightMax + 8});
}

TEST_F(DeviceQueueTest, WhatMayWaitForItsClientHoldsUpNobody) {
  Loaded();
  BufferEntryPtr never = Entry(), waits = Entry(), next = Entry();
  auto launch = Push(1, never, waits, /*aside=*/true);
  Push(2, Value(), next);
  observer_->AwaitEnded({1, 2});
  EXPECT_FALSE(observer_->Ended({1, 1}));
  // It runs as soon as it can, or is dropped as any other.
  BufferEntryPtr result = Entry();
  Push(3, Value(), result, /*aside=*/true);
  observer_->AwaitEnded({1, 3});
  EXPECT_NE(result->content().buffer, nullptr);
  launch->Fail(absl::CancelledError("dropped"), false);
  EXPECT_EQ(waits->content().error, absl::CancelledError("dropped"));
  never->Fail(absl::CancelledError("late"));
}

TEST_F(DeviceQueueTest, ADroppedHeadLetsTheNextOneRun) {
  Loaded();
  BufferEntryPtr never = Entry(), dropped = Entry(), next = Entry();
  auto launch = Push(1, never, dropped);
  Push(2, Value(), next);
  launch->Fail(absl::CancelledError("dropped"), false);
  EXPECT_EQ(dropped->content().error, absl::CancelledError("dropped"));
  EXPECT_TRUE(observer_->Ended({1, 1}));
  observer_->AwaitEnded({1, 2});
  EXPECT_NE(next->content().buffer, nullptr);
  never->Fail(absl::CancelledError("late"));
}

// Cancels against starts, from two threads: each launch ends once, each result is filled.
TEST_F(DeviceQueueTest, CancelsRaceWithStarts) {
  Loaded();
  std::vector<BufferEntryPtr> results;
  for (uint64_t i = 1; i <= 500; ++i) {
    results.push_back(Entry());
    auto launch = Push(i, Value(), results.back());
    if (i % 2 == 0) launch->Fail(absl::CancelledError("raced"), false);
  }
  for (uint64_t i = 1; i <= 500; ++i) {
    observer_->AwaitEnded({1, i});
  }
  for (const BufferEntryPtr& result : results) EXPECT_TRUE(result->filled());
}

}  // namespace
}  // namespace switchtower
