#include "cli/supervisor.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

SupervisedProcess Shell(std::string name, const std::string& script) {
  SupervisedProcess process;
  process.name = std::move(name);
  process.options.argv = {"sh", "-c", script};
  process.ready_prefix = "ready: ";
  return process;
}

class SupervisorTest : public ::testing::Test {
 protected:
  void SetUp() override { Supervisor::BlockSignals(); }
};

TEST_F(SupervisorTest, WaitsForTheReadyLine) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("a", "echo noise; echo 'ready: grpc://here'; exec sleep 100")).ok());
  const auto ready = supervisor.WaitReady("a", seconds(20));
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_EQ(*ready, "grpc://here");
}

TEST_F(SupervisorTest, EndBeforeReadyIsAnError) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("a", "exit 3")).ok());
  const auto ready = supervisor.WaitReady("a", seconds(20));
  ASSERT_FALSE(ready.ok());
  EXPECT_THAT(std::string(ready.status().message()), HasSubstr("exit code 3"));
}

TEST_F(SupervisorTest, MissingProgramIsAnError) {
  Supervisor supervisor;
  SupervisedProcess process = Shell("a", "");
  process.options.argv = {"/nonexistent/program"};
  EXPECT_FALSE(supervisor.Start(std::move(process)).ok());
}

TEST_F(SupervisorTest, RestartsWhatDiesAndSaysSo) {
  Supervisor supervisor;
  // Ends at once, each time: restarted until it is given up.
  ASSERT_TRUE(supervisor.Start(Shell("flappy", "echo 'ready: x'; exit 7")).ok());
  std::vector<std::string> said;
  EXPECT_EQ(supervisor.Run(-1, [&](const std::string& line) { said.push_back(line); }), 1);
  ASSERT_GE(said.size(), 2u);
  EXPECT_THAT(said.front(), HasSubstr("restarted as pid"));
  EXPECT_THAT(said.front(), HasSubstr("exit code 7"));
}

TEST_F(SupervisorTest, PassesOnTheForegroundExitCode) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("a", "echo 'ready: x'; exec sleep 100")).ok());
  ChildOptions options;
  options.argv = {"sh", "-c", "exit $CODE"};
  options.environment = {{"CODE", "42"}};
  const auto command = Spawn(options);
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(supervisor.Run(command->pid, [](const std::string&) {}), 42);
}

TEST_F(SupervisorTest, StopKillsWhatIgnoresSigterm) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("stubborn", "trap '' TERM; echo 'ready: '$$; exec sleep 100")).ok());
  const auto ready = supervisor.WaitReady("stubborn", seconds(20));
  ASSERT_TRUE(ready.ok());
  supervisor.Stop(milliseconds(50));
  EXPECT_NE(kill(std::stoi(*ready), 0), 0);
}

TEST(ChildProcess, AFailedStartLeavesNoDescriptor) {
  const auto lowest_free = [] {
    const int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
  };
  const int before = lowest_free();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit tight{static_cast<rlim_t>(before) + 3, limit.rlim_max};  // room for one of the two pipes
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  ChildOptions options;
  options.argv = {"true"};
  options.pipe_stdout = true;
  EXPECT_EQ(Spawn(options).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(lowest_free(), before);
}

TEST(ChildProcess, ExitCodesAreAShells) {
  EXPECT_EQ(ExitCode(3 << 8), 3);
  EXPECT_EQ(ExitCode(SIGKILL), 137);
}

}  // namespace
}  // namespace switchtower
