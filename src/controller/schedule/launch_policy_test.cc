// Policies as functions of (now, candidates), and the accounts that they read.
#include "controller/schedule/launch_policy.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/schedule/device_time_ledger.h"
#include "controller/schedule/launch_forecast.h"
#include "controller/schedule/launch_window.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;

constexpr SessionId kA{1}, kB{2};

uint64_t Chosen(const std::string& policy, std::vector<LaunchCandidate> candidates, int64_t now_ns = 0) {
  return candidates[(*MakeLaunchPolicy(policy))->Choose(now_ns, candidates)].arrival;
}

TEST(LaunchPolicyTest, AreKnownByName) {
  for (std::string_view name : kLaunchPolicyNames) EXPECT_TRUE(MakeLaunchPolicy(std::string(name)).ok()) << name;
  EXPECT_THAT(std::string(MakeLaunchPolicy("best").status().message()),
              HasSubstr("\"best\"; it is one of fifo, priority, share, pipeline"));
}

TEST(LaunchPolicyTest, FifoTakesTheEarliest) {
  EXPECT_EQ(Chosen("fifo", {{.session = kA, .arrival = 7, .priority = 1}, {kB, 3}, {kA, 5}}), 3u);
}

TEST(LaunchPolicyTest, PriorityTakesTheHighestThenTheEarliest) {
  EXPECT_EQ(Chosen("priority", {{.session = kA, .arrival = 1, .priority = -1},
                                {.session = kB, .arrival = 9, .priority = 2},
                                {.session = kB, .arrival = 8, .priority = 2}}),
            8u);
}

TEST(LaunchPolicyTest, ShareTakesWhoHadLeast) {
  EXPECT_EQ(Chosen("share", {{.session = kA, .arrival = 1, .virtual_ns = 20},
                             {.session = kB, .arrival = 9, .virtual_ns = 10},
                             {.session = kB, .arrival = 10, .virtual_ns = 10}}),
            9u);
}

TEST(LaunchPolicyTest, PipelineTakesWhatIsReadyFirst) {
  EXPECT_EQ(Chosen("pipeline", {{.session = kA, .arrival = 1, .start_ns = 5'000'000, .chain_length = 9},
                                {.session = kA, .arrival = 2, .start_ns = 1'000'000}}),
            2u);
}

TEST(LaunchPolicyTest, PipelineTakesTheBackwardOfAnEarlierMicroBatchBeforeTheForwardOfALaterOne) {
  // Both could start when the device is free, at 3 ms, or now.
  for (int64_t now_ns : {0, 8'000'000}) {
    EXPECT_EQ(Chosen("pipeline",
                     {{.session = kA, .arrival = 3, .start_ns = 3'000'000, .chain_length = 1},
                      {.session = kA, .arrival = 4, .start_ns = 3'010'000, .chain_length = 5}},
                     now_ns),
              4u);
  }
}

TEST(LaunchPolicyTest, PipelineComparesChainsInsideASessionOnly) {
  EXPECT_EQ(Chosen("pipeline", {{.session = kA, .arrival = 3, .chain_length = 1},
                                {.session = kA, .arrival = 5, .chain_length = 2},
                                {.session = kB, .arrival = 4, .chain_length = 1000}}),
            5u);
}

// One device, sessions that always have a launch to send: device time goes by the weights.
std::map<uint64_t, double> SharesOf(const std::map<uint64_t, std::pair<int32_t, int64_t>>& sessions, int64_t total_ns) {
  DeviceTimeLedger ledger;
  const auto policy = *MakeLaunchPolicy("share");
  for (const auto& [id, weight_and_ns] : sessions) ledger.AddSession({id}, weight_and_ns.first);
  std::map<uint64_t, double> used;
  int64_t now_ns = 0;
  while (now_ns < total_ns) {
    std::vector<LaunchCandidate> candidates;
    for (const auto& [id, weight_and_ns] : sessions) {
      candidates.push_back({.session = {id}, .arrival = id, .virtual_ns = ledger.VirtualTime({id})});
    }
    const SessionId chosen = candidates[policy->Choose(now_ns, candidates)].session;
    const int64_t took_ns = sessions.at(chosen.value).second;
    ledger.Sent(chosen, 2'000'000);  // a wrong guess, set right when it ended
    ledger.Measured(chosen, took_ns, 2'000'000);
    used[chosen.value] += static_cast<double>(took_ns) / static_cast<double>(total_ns);
    now_ns += took_ns;
    EXPECT_EQ(ledger.used_ns(chosen), static_cast<int64_t>(used[chosen.value] * static_cast<double>(total_ns) + 0.5));
  }
  return used;
}

TEST(DeviceTimeLedgerTest, SharesFollowTheWeightsHoweverLongLaunchesAre) {
  auto even =
      SharesOf({{1, {1, 1'000'000}}, {2, {1, 7'000'000}}, {3, {1, 500'000}}, {4, {1, 20'000'000}}}, 10'000'000'000);
  for (const auto& [id, share] : even) EXPECT_NEAR(share, 0.25, 0.25 * 0.05) << id;
  auto skewed =
      SharesOf({{1, {1, 5'000'000}}, {2, {2, 5'000'000}}, {3, {4, 1'000'000}}, {4, {8, 3'000'000}}}, 10'000'000'000);
  for (const auto& [id, share] : skewed) {
    const double fair = std::map<uint64_t, double>{{1, 1 / 15.}, {2, 2 / 15.}, {3, 4 / 15.}, {4, 8 / 15.}}[id];
    EXPECT_NEAR(share, fair, fair * 0.05) << id;
  }
}

TEST(DeviceTimeLedgerTest, WhoSleptIsntOwedMuch) {
  DeviceTimeLedger ledger;
  ledger.AddSession(kA, 1);
  ledger.AddSession(kB, 1);
  for (int i = 0; i < 1000; ++i) ledger.Sent(kA, 10'000'000);
  EXPECT_GE(ledger.VirtualTime(kB), ledger.VirtualTime(kA) - DeviceTimeLedger::kLagMaxNs - 10'000'000);
  ledger.DropSession(kB);
  ledger.AddSession(kB, 1);  // nor who is new
  EXPECT_GE(ledger.VirtualTime(kB), ledger.VirtualTime(kA) - 10'000'000);
}

const DeviceListPtr kBoth = DeviceList::Make({{0, 0}, {1, 3}}), kFirst = DeviceList::Make({{0, 0}});

TEST(LaunchWindowTest, IsFullWhereOneDeviceOfTheGangIs) {
  LaunchWindow window({.launches = 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(window.HasRoom(*kBoth));
    window.Sent(*kFirst, 0);
  }
  EXPECT_FALSE(window.HasRoom(*kBoth));
  EXPECT_TRUE(window.HasRoom(*DeviceList::Make({{1, 3}})));
  window.EndedAt({0, 0}, 0);
  EXPECT_TRUE(window.HasRoom(*kBoth));
  EXPECT_EQ(window.ahead({0, 0}), 2);
}

TEST(LaunchWindowTest, InTimeTwoAreAlwaysAllowed) {
  LaunchWindow window({.launches = 10, .time_ns = 4'000'000});
  window.Sent(*kFirst, 100'000'000);
  EXPECT_TRUE(window.HasRoom(*kFirst));
  window.Sent(*kFirst, 100'000'000);
  EXPECT_FALSE(window.HasRoom(*kFirst));
  window.EndedAt({0, 0}, 100'000'000);
  window.EndedAt({0, 0}, 100'000'000);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(window.HasRoom(*kFirst));
    window.Sent(*kFirst, 1'000'000);
  }
  EXPECT_FALSE(window.HasRoom(*kFirst));
}

class LaunchForecastTest : public ::testing::Test {
 protected:
  LaunchOp Step(uint64_t argument, uint64_t result) {
    LaunchOp launch;
    launch.program = placed;
    launch.arguments = {ArrayId{argument}};
    launch.results = {ArrayId{result}};
    return launch;
  }
  LaunchForecastTest() {
    auto program = std::make_shared<CompiledProgram>();
    program->id = {"p"};
    auto one = std::make_shared<PlacedProgram>();
    one->program = program;
    one->devices = kFirst;
    placed = one;
  }
  PlacedProgramPtr placed;
  LaunchForecast forecast;
};

TEST_F(LaunchForecastTest, DurationsAreLearnt) {
  EXPECT_EQ(forecast.Duration({"p"}), LaunchForecast::kUnknownNs);
  forecast.Measured({"p"}, 8'000'000);
  EXPECT_EQ(forecast.Duration({"p"}), 8'000'000);
  for (int i = 0; i < 30; ++i) forecast.Measured({"p"}, 1'000'000);
  EXPECT_NEAR(forecast.Duration({"p"}), 1'000'000, 10'000);
}

TEST_F(LaunchForecastTest, AChainStartsWhenItsInputsAndItsDeviceAreFree) {
  forecast.Measured({"p"}, 1'000);
  const auto first = forecast.Expect(kA, Step(1, 2), 100);
  EXPECT_EQ(first.start_ns, 100);
  EXPECT_EQ(first.chain_length, 1u);
  forecast.Sent(kA, Step(1, 2), first);
  const auto second = forecast.Expect(kA, Step(2, 3), 200);
  EXPECT_EQ(second.start_ns, 1'100);
  EXPECT_EQ(second.chain_length, 2u);
  EXPECT_EQ(forecast.Expect(kB, Step(2, 3), 200).chain_length, 1u);  // another session's array
  forecast.Sent(kA, Step(2, 3), second);
  // The first was late by 500: what is behind it will be, too.
  forecast.Ended(*kFirst, first, 1'600);
  EXPECT_EQ(forecast.Expect(kA, Step(9, 10), 1'600).start_ns, 2'600);
  forecast.Ended(*kFirst, second, 2'000);
  EXPECT_EQ(forecast.Expect(kA, Step(9, 10), 2'100).start_ns, 2'100);
}

TEST_F(LaunchForecastTest, RenamedArraysKeepTheirForecastAndDeletedOnesLoseIt) {
  forecast.Sent(kA, Step(1, 2), forecast.Expect(kA, Step(1, 2), 0));
  forecast.Passed(Op{kA, 0, 0, BindOp{{{ArrayId{2}, ArrayId{5}, {0, 0}}}, kFirst}});
  EXPECT_EQ(forecast.Expect(kA, Step(5, 6), 0).chain_length, 2u);
  forecast.Passed(Op{kA, 0, 0, DeleteOp{{DeleteOp::Group{kFirst, 0, {ArrayId{5}}}}}});
  EXPECT_EQ(forecast.Expect(kA, Step(5, 6), 0).chain_length, 1u);
}

}  // namespace
}  // namespace switchtower
