#include "compiler/compile_queue.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

// Jobs are named by their numbers, sessions too.
struct Fixture {
  Fixture(size_t compilers, size_t spare) : queue(compilers, spare) {}
  void Add(uint64_t number, uint64_t session) {
    auto job = std::make_shared<CompileJob>();
    job->number = number;
    job->request.session = SessionId{session};
    queue.Add(std::move(job));
  }
  // 0 if none may run.
  uint64_t Take() {
    const CompileQueue::JobPtr job = queue.Take();
    return job == nullptr ? 0 : job->number;
  }
  void End(uint64_t number) { queue.Ended(*queue.Find(number)); }
  CompileQueue queue;
};

TEST(CompileQueueTest, SessionsTakeTurns) {
  Fixture f(1, 0);
  for (uint64_t number : {11, 12, 13}) f.Add(number, 1);
  for (uint64_t number : {21, 22}) f.Add(number, 2);
  std::string order;
  while (const uint64_t number = f.Take()) {
    EXPECT_EQ(f.Take(), 0u);
    order += std::to_string(number) + " ";
    f.End(number);
  }
  EXPECT_EQ(order, "11 21 12 22 13 ");
  EXPECT_EQ(f.queue.waiting(), 0u);
}

TEST(CompileQueueTest, TheSessionWithFewestRunningIsNext) {
  Fixture f(3, 0);
  for (uint64_t number : {11, 12, 13}) f.Add(number, 1);
  EXPECT_EQ(f.Take(), 11u);
  EXPECT_EQ(f.Take(), 12u);
  for (uint64_t number : {21, 22}) f.Add(number, 2);
  EXPECT_EQ(f.Take(), 21u);
  EXPECT_EQ(f.Take(), 0u);
  f.End(11);
  EXPECT_EQ(f.Take(), 13u);  // one of each is running, and the turn of session 1 is longer ago
  f.End(12);
  EXPECT_EQ(f.Take(), 22u);
}

TEST(CompileQueueTest, SpareCompilersAreForSessionsThatHaveNone) {
  Fixture f(2, 1);
  for (uint64_t number : {11, 12, 13}) f.Add(number, 1);
  EXPECT_EQ(f.Take(), 11u);
  EXPECT_EQ(f.Take(), 12u);
  EXPECT_EQ(f.queue.startable(), 0u);
  for (uint64_t number : {21, 22}) f.Add(number, 2);
  f.Add(31, 3);
  EXPECT_EQ(f.Take(), 21u);
  EXPECT_EQ(f.Take(), 0u);
  f.End(11);
  EXPECT_EQ(f.Take(), 31u);
  f.End(21);
  EXPECT_EQ(f.Take(), 22u);
  EXPECT_EQ(f.Take(), 0u);
  f.End(12);
  EXPECT_EQ(f.Take(), 13u);
}

TEST(CompileQueueTest, AJoinedJobComesUpWithTheFirstTurnOfBoth) {
  Fixture f(1, 1);
  for (uint64_t number : {11, 12, 13}) f.Add(number, 1);
  EXPECT_EQ(f.Take(), 11u);
  EXPECT_EQ(f.Take(), 0u);
  f.queue.Join(13, SessionId{2});
  f.queue.Join(13, SessionId{2});
  EXPECT_EQ(f.queue.waiting(SessionId{2}), 1u);
  EXPECT_EQ(f.Take(), 13u);
  EXPECT_EQ(f.queue.waiting(SessionId{2}), 0u);
  f.End(13);
  f.queue.Join(13, SessionId{2});
  f.queue.Join(11, SessionId{2});  // running: session 2 has one now
  f.Add(21, 2);
  EXPECT_EQ(f.Take(), 0u);
  f.End(11);
  EXPECT_EQ(f.Take(), 12u);
}

TEST(CompileQueueTest, SessionsThatCompileOneAfterTheOtherAllHaveTheirTurn) {
  Fixture f(1, 0);
  for (uint64_t session = 1; session <= 5; ++session) f.Add(10 * session, session);
  std::string order;
  for (int i = 0; i < 10; ++i) {
    const uint64_t number = f.Take();
    order += std::to_string(number) + " ";
    f.End(number);
    f.Add(number + 1, number / 10);
  }
  EXPECT_EQ(order, "10 20 30 40 50 11 21 31 41 51 ");
}

TEST(CompileQueueTest, TellsHowManyMayStart) {
  Fixture f(2, 2);
  for (uint64_t number : {11, 12, 13, 14}) f.Add(number, 1);
  EXPECT_EQ(f.queue.startable(), 4u);
  f.Take();
  f.Take();
  EXPECT_EQ(f.queue.startable(), 0u);
  for (uint64_t session : {2, 3, 4}) f.Add(10 * session, session);
  EXPECT_EQ(f.queue.startable(), 2u);
  f.Take();
  EXPECT_EQ(f.queue.startable(), 1u);
  f.Take();
  EXPECT_EQ(f.queue.startable(), 0u);
}

TEST(CompileQueueTest, DropsWhatWaitsOnly) {
  Fixture f(1, 0);
  f.Add(11, 1);
  f.Add(12, 1);
  EXPECT_EQ(f.Take(), 11u);
  EXPECT_FALSE(f.queue.Drop(11));
  EXPECT_NE(f.queue.Find(11), nullptr);
  EXPECT_TRUE(f.queue.Drop(12));
  EXPECT_FALSE(f.queue.Drop(12));
  EXPECT_EQ(f.queue.Find(12), nullptr);
  EXPECT_EQ(f.queue.all().size(), 1u);
  f.End(11);
  EXPECT_EQ(f.queue.all().size(), 0u);
  EXPECT_EQ(f.Take(), 0u);
}

}  // namespace
}  // namespace switchtower
