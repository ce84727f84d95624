#include "transport/fast_lane.h"

#include <sched.h>
#include <string.h>

#include <future>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/shared_memory.h"

namespace switchtower {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

MessageHeader Header(uint64_t number) {
  MessageHeader header;
  header.words[0] = number;
  return header;
}

bool Send(FastRingWriter& writer, uint64_t number, size_t bytes = 0) {
  return writer.Send(Header(number), bytes, [bytes](char* memory) { memset(memory, 'x', bytes); });
}

// Every seventh message is too large for a slot.
size_t SizeOf(uint64_t number) {
  return number % 7 == 0 ? kFastSlotBytes + 1 + number % 5000 : number % (kFastSlotBytes + 1);
}

Clock::time_point After(std::chrono::nanoseconds time) { return Clock::now() + time; }

class FastLaneTest : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = *EventLoop::Create("fast-lane-test");
    lane_ = *FastLane::Create(*loop_, [this](WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
      MutexLock lock(mutex_);
      EXPECT_EQ(bytes.size(), SizeOf(header.words[0]));
      EXPECT_EQ(header.words[0], next_[from.value]++) << "out of order or lost";
      ++delivered_;
      changed_.NotifyAll();
    });
  }
  void TearDown() override { loop_->Stop(); }

  std::unique_ptr<FastRingWriter> NewPeer(uint64_t id) {
    auto writer = *FastRingWriter::Create(*lane_->Bells());
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
    for (uint64_t n = first; n < count; ++n) {
      while (!Send(writer, n, SizeOf(n))) std::this_thread::yield();
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
    EXPECT_TRUE(Send(*writer, 1, SizeOf(1)));
  });
  EXPECT_TRUE(lane_->Wait([&] { return delivered() == 2; }, 10, After(seconds(20))));
  sender.join();
}

TEST_F(FastLaneTest, AWaitEndsWithItsBudget) {
  EXPECT_FALSE(lane_->Wait([] { return false; }, 3, After(milliseconds(5))));
}

TEST_F(FastLaneTest, AWaitLooksAsOftenAsItIsTold) {
  int looked = 0;
  EXPECT_FALSE(lane_->Wait([&] { return ++looked == 100; }, 10, Clock::now()));
  EXPECT_EQ(looked, 11);
}

TEST_F(FastLaneTest, ASleeperIsWokenByWhatEndsItsWait) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round));
      done = true;
      lane_->Wake();
    });
    EXPECT_TRUE(lane_->Wait([&] { return done.load(); }, 0, After(seconds(20))));
    other.join();
  }
}

// Sources come and go on the loop, and others want messages, while a thread sleeps: its message still wakes it.
TEST_F(FastLaneTest, ASleeperOutlivesWhatOthersDo) {
  auto writer = NewPeer(1);
  std::atomic<bool> over{false};
  std::thread others([&] {
    for (uint64_t id = 2; !over; ++id) {
      NewPeer(id);
      lane_->Want();
      lane_->Unwant();
      loop_->RunAndWait([&] { lane_->Remove(sources_.back()); });
    }
  });
  for (int n = 0; n < 300; ++n) {
    std::thread sender([&] { EXPECT_TRUE(Send(*writer, n, SizeOf(n))); });
    EXPECT_TRUE(lane_->Wait([&] { return delivered() == n + 1; }, 0, After(seconds(20))));
    sender.join();
  }
  over = true;
  others.join();
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
        1'000'000'000, After(seconds(20))));
  });
  waiting.get_future().wait();
  EXPECT_FALSE(lane_->Wait([] { return true; }, 0, After(seconds(20))));
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
        const int looks = target % 3 == 0 ? 0 : 20;
        if (!lane_->Wait([&] { return delivered() >= target; }, looks, After(std::chrono::microseconds(100)))) {
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
  // Where the core is busy a waiter of that class gets it rarely.
  const auto enough = After(seconds(5));
  for (int n = 1; n <= kRounds && Clock::now() < enough && !HasFatalFailure(); ++n) {
    std::atomic<bool> over{false};
    std::thread waiter([&] {
      const sched_param none{};
      ::sched_setscheduler(0, SCHED_IDLE, &none);
      while (!over) lane_->Wait([] { return true; }, 0, After(seconds(1)));
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
  auto writer = *FastRingWriter::Create(*lane_->Bells());  // nobody reads it
  for (uint64_t n = 0; n < kFastSlots; ++n) EXPECT_TRUE(Send(*writer, n));
  EXPECT_FALSE(Send(*writer, kFastSlots));
  EXPECT_FALSE(Send(*writer, kFastSlots, 100'000));
}

TEST_F(FastLaneTest, WhatWasPublishedBeforeTheEndIsDelivered) {
  auto writer = *FastRingWriter::Create(*lane_->Bells());
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
  auto lane = *FastLane::Create(*loop, [&](WorkerId from, const MessageHeader&, ReceivedBytes) {
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
    writers.push_back(*FastRingWriter::Create(*lane->Bells()));
    auto source = std::make_shared<FastLane::Source>();
    source->from = WorkerId{id};
    source->ring = *FastRingReader::Open(writers.back()->TakeFd());
    sources.push_back(source);
    loop->RunAndWait([&] { lane->Add(source); });
  }
  ASSERT_TRUE(Send(*writers[0], 0));
  loop->RunAndWait([&] { lane->Remove(sources[0]); });
  ASSERT_TRUE(Send(*writers[1], 0));
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

TEST_F(FastLaneTest, ASlotOfAnImpossiblePlaceIsNonsense) {
  const struct {
    uint64_t size, offset, block;
  } kBad[] = {
      {Fabric::kFastBytesMax + 1, 0, 0}, {~uint64_t{0}, 0, 0}, {4096, kFastArenaBytes - 4032, 0},
      {4096, ~uint64_t{0} - 63, 0},      {4096, 32, 0},        {4096, 0, kFastBlocks},
  };
  for (const auto& bad : kBad) {
    auto memory = *SharedMemory::Create(kFastRingBytes);
    auto* slot = reinterpret_cast<FastSlot*>(memory.data() + kFastSlotsBegin);
    slot->size = bad.size;
    slot->offset = bad.offset;
    slot->block = bad.block;
    reinterpret_cast<FastRingControl*>(memory.data())->produced = 1;
    auto reader = *FastRingReader::Open(memory.TakeFd());
    EXPECT_TRUE(absl::IsInvalidArgument(
        reader->Read([](const MessageHeader&, ReceivedBytes) { FAIL() << "it was delivered"; })));
  }
}

// Messages larger than a slot stay in shared memory for as long as their reader wants, in any order.
class FastBlocksTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = Fabric::kFastBytesMax;
  static constexpr size_t kRoom = kFastArenaBytes / kBytes;

  bool SendFilled(char byte, size_t bytes) {
    return writer_->Send(Header(0), bytes, [&](char* memory) { memset(memory, byte, bytes); });
  }
  void ReadAll() {
    ASSERT_TRUE(reader_
                    ->Read([this](const MessageHeader&, ReceivedBytes bytes) {
                      kept_.push_back({std::string_view(bytes.view()), nullptr});
                      kept_.back().second = std::move(bytes).Take();
                    })
                    .ok());
  }
  static bool IsFilled(std::string_view bytes, char byte) {
    return bytes.find_first_not_of(byte) == std::string_view::npos;
  }

  std::unique_ptr<FastRingWriter> writer_ = *FastRingWriter::Create(FastBells{});
  std::unique_ptr<FastRingReader> reader_ = *FastRingReader::Open(writer_->TakeFd());
  std::vector<std::pair<std::string_view, std::shared_ptr<char>>> kept_;
};

TEST_F(FastBlocksTest, WhatIsKeptStaysAndWhatIsLetGoIsRoomAgain) {
  for (size_t n = 0; n < kRoom; ++n) ASSERT_TRUE(SendFilled(static_cast<char>('a' + n), kBytes));
  EXPECT_FALSE(SendFilled('z', kBytes)) << "nothing was read yet";
  ReadAll();
  EXPECT_FALSE(SendFilled('z', kBytes)) << "nothing was let go";
  ASSERT_EQ(kept_.size(), kRoom);
  kept_[1].second.reset();
  ASSERT_TRUE(SendFilled('z', kBytes));
  EXPECT_FALSE(SendFilled('z', kBytes));
  ReadAll();
  EXPECT_TRUE(IsFilled(kept_[0].first, 'a'));
  EXPECT_TRUE(IsFilled(kept_[kRoom - 1].first, static_cast<char>('a' + kRoom - 1)));
  EXPECT_TRUE(IsFilled(kept_.back().first, 'z'));
  EXPECT_EQ(kept_.back().first.data(), kept_[1].first.data()) << "the gap is used";
}

TEST_F(FastBlocksTest, GapsTakeWhatFits) {
  for (const size_t bytes : {size_t{3000}, size_t{1000}, size_t{3000}}) ASSERT_TRUE(SendFilled('a', bytes));
  ReadAll();
  kept_[1].second.reset();
  ASSERT_TRUE(SendFilled('b', 2000));
  ASSERT_TRUE(SendFilled('c', 1000));
  ReadAll();
  EXPECT_GT(kept_[3].first.data(), kept_[2].first.data());
  EXPECT_EQ(kept_[4].first.data(), kept_[1].first.data());
  EXPECT_TRUE(IsFilled(kept_[0].first, 'a') && IsFilled(kept_[2].first, 'a') && IsFilled(kept_[3].first, 'b'));
}

TEST_F(FastBlocksTest, ManySmallBlocksRunOutOfNumbers) {
  for (uint32_t n = 0; n < kFastBlocks; ++n) ASSERT_TRUE(SendFilled('a', 1000));
  EXPECT_FALSE(SendFilled('b', 1000));
  EXPECT_TRUE(SendFilled('c', 10)) << "a small one needs no block";
  ReadAll();
  kept_.clear();
  EXPECT_TRUE(SendFilled('d', 1000));
}

TEST_F(FastBlocksTest, TooLargeOnesAreRefused) { EXPECT_FALSE(SendFilled('a', Fabric::kFastBytesMax + 1)); }

TEST_F(FastBlocksTest, WhatIsKeptOutlivesBothEnds) {
  ASSERT_TRUE(SendFilled('a', 5000));
  ReadAll();
  reader_.reset();
  writer_.reset();
  EXPECT_TRUE(IsFilled(kept_[0].first, 'a'));
}

TEST(FastRing, OnlySealedMemoryOfItsSizeIsTaken) {
  auto other_size = *SharedMemory::Create(8192);
  EXPECT_FALSE(FastRingReader::Open(other_size.TakeFd()).ok());
  EXPECT_FALSE(FastRingReader::Open(UniqueFd(::dup(0))).ok());
}

}  // namespace
}  // namespace switchtower
