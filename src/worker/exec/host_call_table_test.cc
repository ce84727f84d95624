#include "worker/exec/host_call_table.h"

#include <array>
#include <deque>
#include <thread>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

const LaunchId kLaunch{1, 1}, kOther{1, 2};

class HostCallTableTest : public testing::Test {
 protected:
  struct Ending {
    absl::Status status = absl::UnknownError("not ended");
    int times = 0;
  };
  // Calls with one s32[2] operand and result; ends in `endings_[i]`.
  size_t Begin(LaunchId launch) {
    HostCall call;
    call.launch = launch;
    call.callback = 5;
    call.operands = call.results = {Shape{DType::kToken, {}}, Shape{DType::kS32, {2}}};
    call.data = std::make_shared<const std::string>("operands");
    endings_.emplace_back();
    buffers_.emplace_back();
    const size_t index = endings_.size() - 1;
    table_.Begin(std::move(call), {nullptr, reinterpret_cast<char*>(buffers_[index].data())},
                 [ending = &endings_[index]](absl::Status status) {
                   ending->status = std::move(status);
                   ++ending->times;
                 });
    return index;
  }
  void Return(size_t event, const std::string& bytes, absl::Status status = absl::OkStatus()) {
    table_.Return({events_.at(event).request, std::move(status), std::make_shared<const std::string>(bytes)});
  }
  void Settle() { resume_->Stop(); }  // later answers resume on this thread

  std::deque<HostCall> events_;
  std::deque<Ending> endings_;
  std::deque<std::array<int32_t, 2>> buffers_;
  const std::shared_ptr<WorkQueue> resume_ = std::make_shared<WorkQueue>("resume", 1);
  HostCallTable table_{[this](WorkerEvent event) { events_.push_back(std::get<HostCall>(event)); }, resume_};
};

TEST_F(HostCallTableTest, AnAnswerFillsTheResultsAndResumes) {
  const size_t first = Begin(kLaunch), second = Begin(kLaunch);
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_NE(events_[0].request, events_[1].request);
  const int32_t values[2] = {7, -1};
  Return(1, std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  Settle();
  EXPECT_EQ(endings_[second].times, 1);
  EXPECT_TRUE(endings_[second].status.ok()) << endings_[second].status;
  EXPECT_EQ(buffers_[second][0], 7);
  EXPECT_EQ(buffers_[second][1], -1);
  EXPECT_EQ(endings_[first].times, 0);
}

TEST_F(HostCallTableTest, AnErrorAndAWrongSizeFailTheCall) {
  Settle();
  const size_t raised = Begin(kLaunch), cut = Begin(kLaunch);
  Return(0, "", absl::UnknownError("raised"));
  Return(1, "short");
  EXPECT_EQ(endings_[raised].status, absl::UnknownError("raised"));
  EXPECT_EQ(endings_[cut].status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(buffers_[cut][0], 0);
}

TEST_F(HostCallTableTest, CancellingALaunchEndsItsCallsAndThoseToCome) {
  Settle();
  const size_t mine = Begin(kLaunch), other = Begin(kOther);
  table_.CancelLaunch(kLaunch, absl::CancelledError("first"));
  table_.CancelLaunch(kLaunch, absl::CancelledError("second"));
  EXPECT_EQ(endings_[mine].status, absl::CancelledError("first"));
  EXPECT_EQ(endings_[other].times, 0);
  const size_t late = Begin(kLaunch);
  EXPECT_EQ(events_.size(), 2u);  // nobody is asked
  EXPECT_EQ(endings_[late].status, absl::CancelledError("first"));
  Return(0, "too late");
  EXPECT_EQ(endings_[mine].times, 1);
  // The id of an ended launch is forgotten, not refused.
  table_.LaunchEnded(kLaunch);
  Begin(kLaunch);
  EXPECT_EQ(events_.size(), 3u);
}

TEST_F(HostCallTableTest, AnswersAndCancelsFromManyThreadsEndEachCallOnce) {
  for (int round = 0; round < 200; ++round) Begin(kLaunch);
  const std::string bytes(8, 'x');
  std::thread answers([&] {
    for (size_t i = 0; i < 200; ++i) Return(i, bytes);
  });
  std::thread cancels([&] { table_.CancelLaunch(kLaunch, absl::CancelledError("cancelled")); });
  answers.join();
  cancels.join();
  Settle();
  for (const Ending& ending : endings_) EXPECT_EQ(ending.times, 1);
}

}  // namespace
}  // namespace switchtower
