#include "frontdoor/answer_queue.h"

#include <vector>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

IfrtResponse Answer(uint64_t op) {
  IfrtResponse answer;
  answer.mutable_response_metadata()->set_op_id(op);
  return answer;
}
IfrtResponse Awaited(uint64_t op) {
  IfrtResponse answer = Answer(op);
  answer.mutable_check_value_ready_response();
  return answer;
}
IfrtResponse Executed(uint64_t op) {
  IfrtResponse answer = Answer(op);
  answer.mutable_loaded_executable_execute_response();
  return answer;
}
IfrtResponse Destructed(uint64_t op) {
  IfrtResponse answer = Answer(op);
  answer.mutable_destruct_array_response();
  return answer;
}

class AnswerQueueTest : public testing::Test {
 protected:
  AnswerQueueTest() {
    queue_.Push(Awaited(0));
    queue_.Take();
  }
  std::vector<uint64_t> TakeDue() {
    std::vector<uint64_t> ops;
    while (queue_.due()) ops.push_back(queue_.Take().response_metadata().op_id());
    return ops;
  }
  AnswerQueue queue_;
};

TEST_F(AnswerQueueTest, WhatIsAwaitedGoesAheadOfWhatNobodyWaitsFor) {
  queue_.Push(Executed(1));
  queue_.Push(Destructed(2));
  EXPECT_FALSE(queue_.due());
  EXPECT_TRUE(queue_.holds_back());
  queue_.Push(Awaited(3));
  queue_.Push(Awaited(4));
  EXPECT_EQ(TakeDue(), (std::vector<uint64_t>{3, 4}));
  EXPECT_TRUE(queue_.holds_back());
}

TEST_F(AnswerQueueTest, WhatIsHeldBackGoesWhenReleased) {
  queue_.Push(Executed(1));
  queue_.Push(Executed(2));
  queue_.Release();
  EXPECT_FALSE(queue_.holds_back());
  EXPECT_EQ(queue_.due_count(), 2u);
  queue_.Push(Executed(3));  // too late for this batch
  queue_.Push(Awaited(4));   // in the midst of it
  EXPECT_EQ(TakeDue(), (std::vector<uint64_t>{4, 1, 2}));
  EXPECT_TRUE(queue_.holds_back());
}

TEST_F(AnswerQueueTest, ABatchGoesByItself) {
  for (uint64_t op = 1; op < AnswerQueue::kBatch; ++op) queue_.Push(Destructed(op));
  EXPECT_FALSE(queue_.due());
  queue_.Push(Destructed(AnswerQueue::kBatch));
  EXPECT_EQ(TakeDue().size(), AnswerQueue::kBatch);
  EXPECT_FALSE(queue_.holds_back());
}

TEST_F(AnswerQueueTest, FailuresAndFirstExecutionsAreAwaited) {
  IfrtResponse failed = Answer(1);
  failed.mutable_response_metadata()->mutable_status()->set_code(tensorflow::error::INTERNAL);
  queue_.Push(std::move(failed));
  IfrtResponse first = Executed(2);
  first.mutable_loaded_executable_execute_response()->add_outputs();
  queue_.Push(std::move(first));
  EXPECT_EQ(TakeDue(), (std::vector<uint64_t>{1, 2}));
}

TEST(AnswerQueue, TheFirstOfAStreamIsNeverHeldBack) {
  AnswerQueue queue;
  queue.Push(Executed(1));
  EXPECT_TRUE(queue.due());
}

TEST_F(AnswerQueueTest, ClearLeavesNothing) {
  queue_.Push(Executed(1));
  queue_.Push(Awaited(2));
  queue_.Release();
  queue_.Clear();
  EXPECT_FALSE(queue_.due());
  EXPECT_FALSE(queue_.holds_back());
}

}  // namespace
}  // namespace switchtower
