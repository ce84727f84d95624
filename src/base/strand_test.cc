#include "base/strand.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(Strand, RunsTasksInPostingOrderWithoutOverlap) {
  ThreadPool pool("test", 4);
  Strand strand(pool);
  std::vector<int> seen;  // touched by the strand alone
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(strand.Post([&seen, i] { seen.push_back(i); }));
  }
  strand.Stop();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], i);
}

TEST(Strand, RefusesTasksAfterStop) {
  ThreadPool pool("test", 1);
  Strand strand(pool);
  strand.Stop();
  EXPECT_FALSE(strand.Post([] { FAIL() << "ran after Stop"; }));
}

TEST(Strand, TwoStrandsShareOneThread) {
  ThreadPool pool("test", 1);
  Strand a(pool), b(pool);
  std::atomic<int> count{0};
  for (int i = 0; i < 200; ++i) {
    a.Post([&] { ++count; });
    b.Post([&] { ++count; });
  }
  a.Stop();
  b.Stop();
  EXPECT_EQ(count, 400);
}

TEST(Strand, RunOrPostRunsHereWhileTheStrandIsIdle) {
  ThreadPool pool("test", 1);
  Strand strand(pool);
  std::thread::id ran;
  ASSERT_TRUE(strand.RunOrPost([&] { ran = std::this_thread::get_id(); }));
  EXPECT_EQ(ran, std::this_thread::get_id());
  strand.Stop();
  EXPECT_FALSE(strand.RunOrPost([] { FAIL() << "ran after Stop"; }));
}

TEST(Strand, RunOrPostFromItsOwnTaskWaitsItsTurn) {
  ThreadPool pool("test", 1);
  Strand strand(pool);
  std::vector<int> seen;
  strand.RunOrPost([&] {
    strand.RunOrPost([&] { seen.push_back(2); });
    seen.push_back(1);
  });
  strand.Stop();
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(Strand, ManyThreadsRunTasksOneAtATimeAndInEachThreadsOrder) {
  ThreadPool pool("test", 2);
  Strand strand(pool);
  constexpr int kThreads = 4, kTasks = 5000;
  std::vector<int> next(kThreads, 0);  // touched by the strand alone
  bool inside = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        auto task = [&, t, i] {
          EXPECT_FALSE(std::exchange(inside, true));
          EXPECT_EQ(next[t]++, i);
          inside = false;
        };
        if (i % 3 == 0) {
          strand.Post(task);
        } else {
          strand.RunOrPost(task);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  strand.Stop();
  EXPECT_EQ(next, std::vector<int>(kThreads, kTasks));
}

}  // namespace
}  // namespace switchtower
