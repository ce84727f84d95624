#include "base/strand.h"

#include <atomic>
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

}  // namespace
}  // namespace switchtower
