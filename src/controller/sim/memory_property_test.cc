// Memory is reserved in order and for whole gangs: with tiny memories random clients never stall, no device holds more
// than it has, and what can't fit is refused with a sentence that names who holds the memory.
#include <gtest/gtest.h>

#include "controller/sim/property_run.h"
#include "controller/sim/sim_client.h"

namespace switchtower {
namespace {

TEST(MemoryPropertyTest, NothingStallsInTinyMemories) {
  const SeedRange seeds = SeedsOr(400);
  uint64_t values_checked = 0, refusals = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    SimCluster::Options options;
    options.fabric.seed = seed;
    options.fabric.latency_min_ns = 1'000;
    options.fabric.latency_max_ns = 1'000 * draw(1, 300);
    options.fabric.duration_jitter = 0.5;
    options.fabric.device_memory = draw(100, 600);  // an array takes up to 48 bytes of a device
    options.hosts = draw(1, 3);
    options.devices_per_host = draw(1, 2);
    options.launches_ahead = draw(2, 12);
    options.policy = std::string(kLaunchPolicyNames[seed % std::size(kLaunchPolicyNames)]);
    SimCluster cluster(options);
    const SimWorld world(cluster, seed, /*temporaries_max=*/60);
    std::vector<std::unique_ptr<SimClient>> clients;
    const int num_clients = draw(1, 3);
    for (int i = 0; i < num_clients; ++i) {
      SimClient::Options client;
      client.seed = seed * 16 + static_cast<uint64_t>(i);
      client.steps = draw(20, 60);
      client.launches_max = static_cast<size_t>(draw(4, 40));
      client.may_be_refused = true;
      client.ends_early = draw(0, 9) == 0 ? 0.02 : 0;
      clients.push_back(std::make_unique<SimClient>(cluster, world, client));
    }
    cluster.loop().RunAll();
    for (const auto& client : clients) {
      values_checked += client->values_checked();
      refusals += client->refusals();
      ASSERT_TRUE(client->done()) << "seed " << seed << " stalls: " << client->Describe();
      ASSERT_TRUE(client->wrong().empty()) << "seed " << seed << ": " << client->wrong().front();
    }
    ASSERT_TRUE(cluster.fabric().faults.empty()) << "seed " << seed << ": " << cluster.fabric().faults.front();
  }
  // Both happen, or the memories are of the wrong size for the test.
  EXPECT_GT(values_checked, seeds.count);
  EXPECT_GT(refusals, seeds.count / 10);
}

}  // namespace
}  // namespace switchtower
