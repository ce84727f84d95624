// One order for every set of devices: random clients on random overlapping gangs never stall, and every value is right.
// SWITCHTOWER_SEEDS=1:10000 runs them all; a failure names the seed that shows it again.
#include <gtest/gtest.h>

#include "controller/sim/property_run.h"
#include "controller/sim/sim_client.h"

namespace switchtower {
namespace {

struct Outcome {
  bool stalled = false;
  std::string story;
  uint64_t values_checked = 0;
};

Outcome RunSeed(uint64_t seed, bool per_device_choice) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  SimCluster::Options options;
  options.fabric.seed = seed;
  options.fabric.latency_min_ns = 1'000;
  options.fabric.latency_max_ns = 1'000 * draw(1, 300);
  options.fabric.duration_jitter = 0.5;
  options.fabric.per_device_choice = per_device_choice;
  options.hosts = draw(1, 4);
  options.devices_per_host = draw(1, 3);
  options.launches_ahead = draw(2, 12);
  options.policy = std::string(kLaunchPolicyNames[seed % std::size(kLaunchPolicyNames)]);
  SimCluster cluster(options);
  const SimWorld world(cluster, seed, 0);
  std::vector<std::unique_ptr<SimClient>> clients;
  const int num_clients = draw(1, 4);
  for (int i = 0; i < num_clients; ++i) {
    SimClient::Options client;
    client.seed = seed * 16 + static_cast<uint64_t>(i);
    client.steps = draw(20, 60);
    client.launches_max = static_cast<size_t>(draw(4, 40));
    client.ends_early = draw(0, 9) == 0 ? 0.02 : 0;
    client.standing = {.weight = draw(1, 8), .priority = draw(-1, 1)};
    clients.push_back(std::make_unique<SimClient>(cluster, world, client));
  }
  cluster.loop().RunAll();
  Outcome outcome;
  for (const auto& client : clients) {
    outcome.values_checked += client->values_checked();
    outcome.stalled |= !client->done();
    if (!client->done()) outcome.story += client->Describe();
    for (const std::string& wrong : client->wrong()) outcome.story += wrong + "\n";
  }
  for (const std::string& fault : cluster.fabric().faults) outcome.story += fault + "\n";
  if (outcome.stalled) {
    for (int32_t host = 0; host < cluster.hosts(); ++host) outcome.story += cluster.worker(host).Describe();
  }
  return outcome;
}

TEST(OrderPropertyTest, NothingStallsAndAllValuesAreRight) {
  const SeedRange seeds = SeedsOr(400);
  uint64_t values_checked = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Outcome outcome = RunSeed(seed, /*per_device_choice=*/false);
    values_checked += outcome.values_checked;
    ASSERT_FALSE(outcome.stalled) << "seed " << seed << "\n" << outcome.story;
    ASSERT_EQ(outcome.story, "") << "seed " << seed;
  }
  EXPECT_GT(values_checked, seeds.count);
}

// The test of the test: where each device takes what is ready, gangs that overlap wait for each other for ever.
TEST(OrderPropertyTest, FindsTheDeadlockOfPerDeviceChoice) {
  int stalled = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) stalled += RunSeed(seed, /*per_device_choice=*/true).stalled ? 1 : 0;
  EXPECT_GT(stalled, 5);
}

TEST(OrderPropertyTest, ASeedIsTheSameRunEachTime) {
  const Outcome first = RunSeed(7, false), second = RunSeed(7, false);
  EXPECT_EQ(first.values_checked, second.values_checked);
  EXPECT_EQ(first.story, second.story);
}

}  // namespace
}  // namespace switchtower
