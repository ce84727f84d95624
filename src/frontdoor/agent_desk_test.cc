#include "frontdoor/agent_desk.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::HasSubstr;

class FakeLink : public AgentLink {
 public:
  void Send(AgentFrame frame) override { frames.push_back(frame.body.ToString()); }
  void Close(const absl::Status& why) override { closed = why; }
  std::vector<std::string> frames;
  absl::Status closed;
};

class AgentDeskTest : public testing::Test {
 protected:
  using Answer = absl::StatusOr<std::shared_ptr<const std::string>>;
  // The answer comes into `answers_[i]`.
  size_t Call() {
    ClientCall call;
    call.callback = 3;
    call.results = {Shape{DType::kS32, {}}};
    call.data = std::make_shared<const std::string>("operand");
    const size_t index = calls_++;
    call.answer = [this, index](Answer answer) { answers_.emplace(index, std::move(answer)); };
    desk_->OnCall(std::move(call));
    return index;
  }
  void Attach() { ASSERT_TRUE(desk_->Attach(link_).ok()); }

  size_t calls_ = 0;
  std::multimap<size_t, Answer> answers_;
  const std::shared_ptr<FakeLink> link_ = std::make_shared<FakeLink>();
  const std::shared_ptr<AgentDesk> desk_ =
      std::make_shared<AgentDesk>(SessionId{81}, [](Callback<std::vector<DeviceMemory>> done) { done({}); });
};

TEST_F(AgentDeskTest, TokensDiffer) {
  AgentDesk other(SessionId{81}, nullptr);
  EXPECT_NE(other.token(), desk_->token());
  EXPECT_GE(desk_->token().size(), 16u + 1 + 32);
}

TEST_F(AgentDeskTest, WithoutAnAgentACallSaysWhatToDo) {
  Call();
  ASSERT_EQ(answers_.count(0), 1u);
  EXPECT_THAT(std::string(answers_.find(0)->second.status().message()), HasSubstr("install the pip package"));
}

TEST_F(AgentDeskTest, AnswersFindTheirCalls) {
  Attach();
  EXPECT_THAT(link_->frames.at(0), HasSubstr("{}"));  // welcome comes first
  const size_t first = Call(), second = Call();
  EXPECT_THAT(link_->frames.at(2), HasSubstr(R"("call":"2")"));
  desk_->Returned({2, "", std::make_shared<const std::string>("1234")});
  EXPECT_EQ(answers_.count(first), 0u);
  EXPECT_EQ(**answers_.find(second)->second, "1234");
  desk_->Returned({2, "", std::make_shared<const std::string>("1234")});
  desk_->Returned({99, "", std::make_shared<const std::string>()});
  EXPECT_EQ(answers_.size(), 1u);
  desk_->Returned({1, "Traceback: boom", std::make_shared<const std::string>()});
  const absl::Status status = answers_.find(first)->second.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CpuCallback error calling callback: Traceback: boom"));
}

TEST_F(AgentDeskTest, ResultsOfAWrongSizeAreAnError) {
  Attach();
  Call();
  desk_->Returned({1, "", std::make_shared<const std::string>("12345")});
  EXPECT_EQ(answers_.find(0)->second.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AgentDeskTest, AnAgentThatGoesFailsItsCallsAndMayComeBack) {
  Attach();
  EXPECT_FALSE(desk_->Attach(std::make_shared<FakeLink>()).ok());
  Call();
  desk_->Detach(nullptr);  // somebody else
  EXPECT_TRUE(answers_.empty());
  desk_->Detach(link_.get());
  EXPECT_THAT(std::string(answers_.find(0)->second.status().message()), HasSubstr("went away"));
  Attach();
}

TEST_F(AgentDeskTest, TheSessionsEndFailsCallsAndClosesTheLink) {
  Attach();
  Call();
  desk_->Close(absl::CancelledError("over"));
  EXPECT_EQ(answers_.find(0)->second.status(), absl::CancelledError("over"));
  EXPECT_EQ(link_->closed, absl::CancelledError("over"));
  EXPECT_FALSE(desk_->Attach(link_).ok());
}

TEST_F(AgentDeskTest, ACallbackIsReleasedOnceRetiredAndOutOfReach) {
  Attach();
  const size_t before = link_->frames.size();
  const uint64_t five = 5;
  std::shared_ptr<const void> program = desk_->Hold({&five, 1}), same = desk_->Hold({&five, 1});
  desk_->Retire({5});
  program = nullptr;
  EXPECT_EQ(link_->frames.size(), before);  // the second one may still call it
  same = nullptr;
  ASSERT_EQ(link_->frames.size(), before + 1);
  EXPECT_THAT(link_->frames.back(), HasSubstr(R"("callbacks":["5"])"));
  // Nobody ever compiled what would call 6.
  desk_->Retire({6});
  ASSERT_EQ(link_->frames.size(), before + 2);
  // Out of reach, not retired: the client may lower another program with it.
  const uint64_t seven = 7;
  program = desk_->Hold({&seven, 1});
  program = nullptr;
  EXPECT_EQ(link_->frames.size(), before + 2);
}

}  // namespace
}  // namespace switchtower
