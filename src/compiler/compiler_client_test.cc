#include "compiler/compiler_client.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/testing_programs.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Result = absl::StatusOr<std::shared_ptr<const CompiledProgram>>;

CompilerClient::Options FakeOptions() {
  CompilerClient::Options options;
  options.command = {FAKE_COMPILER};
  options.max_children = 2;
  return options;
}

std::future<Result> Start(CompilerClient& client, const std::string& module, uint64_t session = 1,
                          uint64_t number = 0) {
  static uint64_t last_number = 1000;
  auto promise = std::make_shared<std::promise<Result>>();
  CompileRequest request;
  request.module = module;
  request.session = SessionId{session};
  client.Compile(number == 0 ? ++last_number : number, ProgramId{HashOf('a')}, std::move(request),
                 [promise](Result result) { promise->set_value(std::move(result)); });
  return promise->get_future();
}

void AwaitRunning(CompilerClient& client, size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (client.stats().running != count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_EQ(client.stats().running, count);
}

std::string Message(const Result& result) { return std::string(result.status().message()); }

TEST(CompilerClientTest, CompilesAndKeepsTheChild) {
  CompilerClient client(FakeOptions());
  const Result first = Start(client, "pid jit_f").get();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->id.hash, HashOf('a'));
  EXPECT_EQ((*first)->executable, "pid jit_f");
  const Result second = Start(client, "pid jit_g").get();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*first)->hlo_text, (*second)->hlo_text);
  EXPECT_EQ(client.stats().children, 1u);
  EXPECT_EQ(client.stats().compiled, 2u);
}

TEST(CompilerClientTest, OneProgramAtATimeNeedsOneChild) {
  CompilerClient client(FakeOptions());
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Start(client, "fine").get().ok());
  EXPECT_EQ(client.stats().children, 1u);
}

TEST(CompilerClientTest, ACrashIsTheErrorOfThatProgramAlone) {
  CompilerClient client(FakeOptions());
  const Result crash = Start(client, "abort jit_bad").get();
  EXPECT_EQ(crash.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(crash), HasSubstr("signal 6"));
  EXPECT_THAT(Message(crash), HasSubstr("the world is flat"));
  EXPECT_THAT(Message(crash), HasSubstr("jit_bad"));
  EXPECT_THAT(Message(crash), Not(HasSubstr("INTERNAL")));
  EXPECT_TRUE(Start(client, "fine").get().ok());
  EXPECT_EQ(client.stats().crashed, 1u);
}

TEST(CompilerClientTest, ACrashLeavesTheOthersAlone) {
  CompilerClient client(FakeOptions());
  std::vector<std::future<Result>> good, bad;
  for (int i = 0; i < 20; ++i) {
    good.push_back(Start(client, "fine"));
    bad.push_back(Start(client, "exit"));
  }
  for (auto& result : good) EXPECT_TRUE(result.get().ok());
  for (auto& result : bad) EXPECT_THAT(Message(result.get()), HasSubstr("exit status 3"));
}

TEST(CompilerClientTest, AChildThatDiedIdleIsReplaced) {
  CompilerClient client(FakeOptions());
  const Result first = Start(client, "pid").get();
  ASSERT_TRUE(first.ok());
  const pid_t pid = std::stoi((*first)->hlo_text);
  siginfo_t info = {};
  kill(pid, SIGKILL);
  waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
  const Result second = Start(client, "pid").get();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*first)->hlo_text, (*second)->hlo_text);
}

TEST(CompilerClientTest, WhatAChildSaysUnaskedIsNoAnswerToTheNextProgram) {
  CompilerClient::Options options = FakeOptions();
  options.max_children = 1;
  CompilerClient client(options);
  ASSERT_TRUE(Start(client, "twice").get().ok());
  const Result next = Start(client, "fine").get();
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST(CompilerClientTest, AChildThatSaidNonsenseIsReplaced) {
  CompilerClient::Options options = FakeOptions();
  options.max_children = 1;
  CompilerClient client(options);
  std::string before;
  for (const char* nonsense : {"junk", "wrong"}) {
    EXPECT_FALSE(Start(client, nonsense).get().ok());
    const Result after = Start(client, "pid").get();
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_NE((*after)->hlo_text, before);
    before = (*after)->hlo_text;
  }
}

TEST(CompilerClientTest, GivesUpAfterTheTimeout) {
  CompilerClient::Options options = FakeOptions();
  options.timeout = std::chrono::milliseconds(50);
  CompilerClient client(options);
  const Result result = Start(client, "hang jit_endless").get();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(result), HasSubstr("jit_endless"));
}

TEST(CompilerClientTest, StopEndsWhatHangsAndWhatWaits) {
  CompilerClient client(FakeOptions());
  std::vector<std::future<Result>> results;
  for (int i = 0; i < 5; ++i) results.push_back(Start(client, "hang"));
  client.Stop();
  for (auto& result : results) EXPECT_EQ(result.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Start(client, "fine").get().status().code(), absl::StatusCode::kCancelled);
}

TEST(CompilerClientTest, ASessionIsntHeldUpByWhatOthersCompile) {
  CompilerClient client(FakeOptions());
  std::vector<std::future<Result>> held;
  for (int i = 0; i < 10; ++i) held.push_back(Start(client, "hang", 1));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Start(client, "fine", 2).get().ok());
  EXPECT_TRUE(Start(client, "fine", 3).get().ok());
  EXPECT_EQ(client.stats().running, 2u);
  EXPECT_EQ(client.stats().waiting, 8u);
  EXPECT_EQ(client.Waiting(SessionId{1}), 8u);
  EXPECT_EQ(client.Waiting(SessionId{2}), 0u);
}

// Two sessions wait behind one program that both want; at its end each may go on, in whatever is free.
TEST(CompilerClientTest, TheEndOfASharedProgramStartsAllThatWaitedForIt) {
  CompilerClient client(FakeOptions());
  std::future<Result> other = Start(client, "hang", 9, 1);
  std::future<Result> shared = Start(client, "hang", 1, 2);
  AwaitRunning(client, 2);
  client.Join(2, SessionId{2});
  std::future<Result> first = Start(client, "hang", 1, 3);
  std::future<Result> second = Start(client, "fine", 2, 4);
  client.GiveUp(2);
  EXPECT_EQ(shared.get().status().code(), absl::StatusCode::kCancelled);
  ASSERT_EQ(second.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_TRUE(second.get().ok());
}

TEST(CompilerClientTest, WhatIsGivenUpMakesRoom) {
  CompilerClient::Options options = FakeOptions();
  options.max_children = 1;
  CompilerClient client(options);
  std::future<Result> running = Start(client, "hang", 1, 1);
  AwaitRunning(client, 1);
  std::future<Result> waiting = Start(client, "hang", 1, 2);
  std::future<Result> next = Start(client, "fine", 1, 3);
  client.GiveUp(2);
  EXPECT_EQ(waiting.get().status().code(), absl::StatusCode::kCancelled);
  client.GiveUp(1);
  EXPECT_EQ(running.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(next.get().ok());
  client.GiveUp(3);  // it has ended
  EXPECT_TRUE(Start(client, "fine").get().ok());
}

TEST(CompilerClientTest, RefusesMoreThanMayWait) {
  CompilerClient::Options options = FakeOptions();
  options.max_children = 1;
  options.max_waiting = 2;
  CompilerClient client(options);
  std::vector<std::future<Result>> results;
  int refused = 0;
  for (int i = 0; i < 5; ++i) {
    results.push_back(Start(client, "hang"));
    if (results.back().wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    EXPECT_EQ(results.back().get().status().code(), absl::StatusCode::kResourceExhausted);
    ++refused;
  }
  EXPECT_GE(refused, 2);  // one is being compiled at most, and two wait: which ones depends on when the first began
}

TEST(CompilerClientTest, ErrorsDontReadLikeALostSlice) {
  CompilerClient client(FakeOptions());
  const Result result = Start(client, "error").get();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(result), "internal: pass failed, not_found: x");
}

TEST(CompilerClientTest, ALongTaleOnStderrDoesntBlock) {
  CompilerClient client(FakeOptions());
  EXPECT_TRUE(Start(client, "chatty").get().ok());
}

TEST(CompilerClientTest, LargeModulesPass) {
  CompilerClient client(FakeOptions());
  const std::string module(20'000'000, 'm');
  const Result result = Start(client, module).get();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->executable, module);
}

TEST(CompilerClientTest, RefusesAnswersThatArentOne) {
  CompilerClient client(FakeOptions());
  EXPECT_FALSE(Start(client, "junk").get().ok());
  EXPECT_FALSE(Start(client, "wrong").get().ok());
  EXPECT_TRUE(Start(client, "fine").get().ok());
}

TEST(CompilerClientTest, SaysWhenThereIsNoCompiler) {
  CompilerClient::Options options = FakeOptions();
  options.command = {"/nonexistent/compiler"};
  CompilerClient client(options);
  EXPECT_THAT(Message(Start(client, "fine").get()), HasSubstr("can't execute the compiler"));
}

TEST(CompilerClientTest, WarmStartsOneChild) {
  CompilerClient client(FakeOptions());
  client.Warm();
  ASSERT_TRUE(Start(client, "fine").get().ok());
  EXPECT_GE(client.stats().children, 1u);
}

TEST(GuessProgramNameTest, FindsTheNameInTextAndBytecode) {
  EXPECT_EQ(GuessProgramName("module @jit_step attributes {"), "jit_step");
  EXPECT_EQ(GuessProgramName(std::string("ML\xefR\0a_jit_no\0jit_f.1\0", 22)), "jit_f.1");
  EXPECT_EQ(GuessProgramName("abc"), "a program of 3 bytes");
}

}  // namespace
}  // namespace switchtower
