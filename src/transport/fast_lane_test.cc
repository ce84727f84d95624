#include "transport/fast_lane.h"

#include <sched.h>

#include <future>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/shared_memory.h"

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

MessageHeader Header(uint64_t number) {
  MessageHeader header;
  header.words[0] = number;
  return header;
}

class FastLaneTest : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = *EventLoop::Create("fast-lane-test");
    lane_ = *FastLane::Create(*loop_, [this](WorkerId from, const MessageHeader& header, std::string_view bytes) {
      MutexLock lock(mutex_);
      EXPECT_EQ(bytes.size(), header.words[0] % (Fabric::kFastBytes + 1));
      EXPECT_EQ(header.words[0], next_[from.value]++) << "out of order or lost";
      ++delivered_;
      changed_.NotifyAll();
    });
  }
  void TearDown() override { loop_->Stop(); }

  std::unique_ptr<FastRingWriter> NewPeer(uint64_t id) {
    auto writer = *FastRingWriter::Create(*lane_->Bell());
    Add(id, *FastRingReader::Open(writer->TakeFd()));
    return writer;
  }
  void Add(uint64_t id, std::unique_ptr<FastRingReader> reader) {
    auto source = std::make_shared<FastLane::Source>();
    source->from = WorkerId{id};
    source->ring = std::move(reader);
    source->failed = [this](absl::Status why) { failure_.set_value(std::move(why)); };
    sources_.push_back(source);
    loop_->RunAndWait([&] { lane_->Add(source); });
  }
  int delivered() {
    MutexLock lock(mutex_);
    return delivered_;
  }
  void AwaitDelivered(int count) {
    MutexLock lock(mutex_);
    while (delivered_ < count) ASSERT_TRUE(changed_.WaitFor(mutex_, seconds(20)));
  }
  static void SendAll(FastRingWriter& writer, uint64_t count, uint64_t first = 0) {
    const std::string bytes(Fabric::kFastBytes, 'x');
    for (uint64_t n = first; n < count; ++n) {
      while (!writer.Send(Header(n), std::string_view(bytes).substr(0, n % (Fabric::kFastBytes + 1)))) {
        std::this_thread::yield();
      }
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, uint64_t> next_ GUARDED_BY(mutex_);
  int delivered_ GUARDED_BY(mutex_) = 0;
  std::promise<absl::Status> failure_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<FastLane> lane_;
  std::vector<std::shared_ptr<FastLane::Source>> sources_;
};

TEST_F(FastLaneTest, TheLoopDeliversWhatIsWanted) {
  auto writer = NewPeer(1);
  SendAll(*writer, 100);
  EXPECT_EQ(delivered(), 0) << "nobody wanted them";
  lane_->Want();
  AwaitDelivered(100);
  SendAll(*writer, 10'000, 100);
  AwaitDelivered(10'000);
}

TEST_F(FastLaneTest, AWaitingThreadDeliversItself) {
  auto writer = NewPeer(1);
  SendAll(*writer, 1);
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(20));  // long enough for the other one to sleep
    EXPECT_TRUE(writer->Send(Header(1), "x"));
  });
  EXPECT_TRUE(lane_->Wait([&] { return delivered() == 2; }, seconds(20)));
  sender.join();
}

TEST_F(FastLaneTest, AWaitEndsWithItsBudget) {
  EXPECT_FALSE(lane_->Wait([] { return false; }, milliseconds(5)));
}

TEST_F(FastLaneTest, OneThreadWaitsAtATime) {
  std::promise<void> waiting;
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    bool told = false;
    EXPECT_TRUE(lane_->Wait(
        [&] {
          if (!std::exchange(told, true)) waiting.set_value();
          return done.load();
        },
        seconds(20)));
  });
  waiting.get_future().wait();
  EXPECT_FALSE(lane_->Wait([] { return true; }, seconds(20)));
  done = true;
  waiter.join();
}

// Threads come and go while peers send: nothing is lost, doubled or left lying.
TEST_F(FastLaneTest, NothingIsLeftLyingWhenWaitersChange) {
  constexpr int kPeers = 3, kMessages = 20'000;
  std::vector<std::unique_ptr<FastRingWriter>> writers;
  for (uint64_t id = 1; id <= kPeers; ++id) writers.push_back(NewPeer(id));
  std::vector<std::thread> threads;
  for (auto& writer : writers) threads.emplace_back([&] { SendAll(*writer, kMessages); });
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (delivered() < kPeers * kMessages) {
        const int target = delivered() + 10;
        if (!lane_->Wait([&] { return delivered() >= target; }, std::chrono::microseconds(100))) {
          lane_->Want();
          std::this_thread::yield();
          lane_->Unwant();
        }
      }
    });
  }
  AwaitDelivered(kPeers * kMessages);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(delivered(), kPeers * kMessages);
}

void UseFirstCoreOnly() {
  cpu_set_t cores, one;
  CPU_ZERO(&one);
  ASSERT_EQ(::sched_getaffinity(0, sizeof(cores), &cores), 0);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &cores)) CPU_SET(core, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
}

// A thread that leaves the rings to the loop is interrupted at any point by a message and by the loop, which has the
// one core before it; no later message helps.
TEST_F(FastLaneTest, TheBellIsHeardWhileAWaitEnds) {
  constexpr int kRounds = 3000;
  auto writer = NewPeer(1);
  lane_->Want();
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  UseFirstCoreOnly();
  loop_->RunAndWait(UseFirstCoreOnly);
  for (int n = 1; n <= kRounds && !HasFatalFailure(); ++n) {
    std::atomic<bool> over{false};
    std::thread waiter([&] {
      const sched_param none{};
      ::sched_setscheduler(0, SCHED_IDLE, &none);
      while (!over) lane_->Wait([] { return true; }, seconds(1));
    });
    std::this_thread::sleep_for(std::chrono::microseconds(100 + n % 97));
    over = true;
    SendAll(*writer, n, n - 1);
    AwaitDelivered(n);
    waiter.join();
  }
  ::sched_setaffinity(0, sizeof(before), &before);
}

TEST_F(FastLaneTest, AFullRingRefuses) {
  auto writer = *FastRingWriter::Create(*lane_->Bell());  // nobody reads it
  for (uint64_t n = 0; n < kFastSlots; ++n) EXPECT_TRUE(writer->Send(Header(n), ""));
  EXPECT_FALSE(writer->Send(Header(kFastSlots), ""));
}

TEST_F(FastLaneTest, WhatWasPublishedBeforeTheEndIsDelivered) {
  auto writer = *FastRingWriter::Create(*lane_->Bell());
  auto reader = *FastRingReader::Open(writer->TakeFd());
  SendAll(*writer, 5);
  auto source = std::make_shared<FastLane::Source>();
  source->from = WorkerId{1};
  source->ring = std::move(reader);
  writer.reset();
  loop_->RunAndWait([&] { lane_->Remove(source); });
  EXPECT_EQ(delivered(), 5);
}

// Who wants messages while a source is being removed finds the rings taken, and relies on whoever has them.
TEST(FastLane, AWishDuringARemovalCounts) {
  auto loop = *EventLoop::Create("fast-lane-test");
  FastLane* wanted_lane = nullptr;
  std::promise<void> delivered;
  auto lane = *FastLane::Create(*loop, [&](WorkerId from, const MessageHeader&, std::string_view) {
    if (from == WorkerId{1}) {
      std::thread([&] { wanted_lane->Want(); }).join();
    } else {
      delivered.set_value();
    }
  });
  wanted_lane = lane.get();
  std::vector<std::unique_ptr<FastRingWriter>> writers;
  std::vector<std::shared_ptr<FastLane::Source>> sources;
  for (uint64_t id : {1, 2}) {
    writers.push_back(*FastRingWriter::Create(*lane->Bell()));
    auto source = std::make_shared<FastLane::Source>();
    source->from = WorkerId{id};
    source->ring = *FastRingReader::Open(writers.back()->TakeFd());
    sources.push_back(source);
    loop->RunAndWait([&] { lane->Add(source); });
  }
  ASSERT_TRUE(writers[0]->Send(Header(0), ""));
  loop->RunAndWait([&] { lane->Remove(sources[0]); });
  ASSERT_TRUE(writers[1]->Send(Header(0), ""));
  EXPECT_EQ(delivered.get_future().wait_for(seconds(20)), std::future_status::ready);
  loop->Stop();
}

TEST_F(FastLaneTest, NonsenseEndsItsSourceAlone) {
  lane_->Want();
  auto good = NewPeer(1);
  auto memory = *SharedMemory::Create(kFastRingBytes);
  auto* control = reinterpret_cast<FastRingControl*>(memory.data());
  control->produced = kFastSlots + 1;
  Add(2, *FastRingReader::Open(memory.TakeFd()));
  EXPECT_EQ(failure_.get_future().get().code(), absl::StatusCode::kInvalidArgument);
  SendAll(*good, 100);
  AwaitDelivered(100);
}

TEST_F(FastLaneTest, ASlotOfAnImpossibleSizeIsNonsense) {
  auto memory = *SharedMemory::Create(kFastRingBytes);
  reinterpret_cast<FastSlot*>(memory.data() + 4096)->size = Fabric::kFastBytes + 1;
  reinterpret_cast<FastRingControl*>(memory.data())->produced = 1;
  lane_->Want();
  Add(1, *FastRingReader::Open(memory.TakeFd()));
  EXPECT_EQ(failure_.get_future().get().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(delivered(), 0);
}

TEST(FastRing, OnlySealedMemoryOfItsSizeIsTaken) {
  auto other_size = *SharedMemory::Create(8192);
  EXPECT_FALSE(FastRingReader::Open(other_size.TakeFd()).ok());
  EXPECT_FALSE(FastRingReader::Open(UniqueFd(::dup(0))).ok());
}

}  // namespace
}  // namespace switchtower
