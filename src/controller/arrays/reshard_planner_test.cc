#include "controller/arrays/reshard_planner.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::HasSubstr;

// A tiled (or replicated) sharding of `shape` over a random permutation of devices, as places.
std::vector<ShardPlace> RandomShards(const Shape& shape, int hosts, int ordinals, std::mt19937& random) {
  const int count = hosts * ordinals;
  Sharding sharding;
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (int d : order) sharding.devices.push_back(DeviceId{static_cast<uint64_t>(d)});
  sharding.kind = Sharding::Kind::kTiled;
  int rest = count;
  for (int d = 0; d < shape.rank(); ++d) {
    std::vector<int> divisors;
    for (int k = 1; k <= rest; ++k) {
      if (rest % k == 0) divisors.push_back(k);
    }
    const int cut = divisors[random() % divisors.size()];
    sharding.tile_dims.push_back(cut);
    rest /= cut;
  }
  sharding.tile_dims.push_back(rest);
  sharding.replicated_trailing_dims = 1;
  sharding.tile_devices.resize(count);
  std::iota(sharding.tile_devices.begin(), sharding.tile_devices.end(), 0);
  std::shuffle(sharding.tile_devices.begin(), sharding.tile_devices.end(), random);
  EXPECT_TRUE(ValidateSharding(sharding, shape).ok());
  std::vector<ShardPlace> shards;
  for (int i = 0; i < count; ++i) {
    const int device = order[i];
    ShardPlace shard;
    shard.place = Place{device / ordinals, device % ordinals};
    shard.slice = shard.place.seat / 2;
    shard.box = *ShardBox(sharding, shape, i);
    shards.push_back(shard);
  }
  return shards;
}

// Calls `fn(index inside the box's shard of dims `dims`, flat)` for each element of the box.
void ForEach(const Box& box, const std::vector<int64_t>& dims, const std::function<void(int64_t)>& fn) {
  int64_t volume = 1;
  for (int64_t size : box.size) volume *= size;
  for (int64_t i = 0; i < volume; ++i) {
    int64_t rest = i, flat = 0, stride = 1;
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      flat += (box.start[d] + rest % box.size[d]) * stride;
      rest /= box.size[d];
      stride *= dims[d];
    }
    fn(flat);
  }
}

// Fills the destination shards by the plan and compares with the array; each element must be written once.
void CheckMoves(const Shape& shape, const std::vector<ShardPlace>& from, const std::vector<ShardPlace>& to) {
  auto plan = PlanReshard(from, to);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  // The value of an element is its flat index in the whole array.
  const auto values = [&](const ShardPlace& shard) {
    std::vector<int64_t> held;
    ForEach(shard.box, shape.dims, [&](int64_t flat) { held.push_back(flat); });
    return held;
  };
  std::vector<std::vector<int64_t>> got(to.size());
  for (size_t i = 0; i < to.size(); ++i) got[i].assign(values(to[i]).size(), -1);
  for (const ReshardPiece& piece : *plan) {
    ASSERT_EQ(piece.source_box.size, piece.destination_box.size);
    const std::vector<int64_t> source = values(from[piece.source]);
    std::vector<int64_t> moved;
    ForEach(piece.source_box, from[piece.source].box.size, [&](int64_t at) { moved.push_back(source.at(at)); });
    size_t next = 0;
    ForEach(piece.destination_box, to[piece.destination].box.size, [&](int64_t at) {
      ASSERT_EQ(got[piece.destination].at(at), -1) << "written twice";
      got[piece.destination][at] = moved[next++];
    });
  }
  for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(got[i], values(to[i]));
}

TEST(ReshardPlanner, RandomShardingsMoveEveryElementOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Shape shape{DType::kF32, {}};
    for (int d = static_cast<int>(random() % 4); d > 0; --d) {
      shape.dims.push_back(static_cast<int64_t>(random() % 7));  // uneven cuts and empty arrays too
    }
    const auto from = RandomShards(shape, 1 + random() % 4, 1 + random() % 3, random);
    const auto to = RandomShards(shape, 1 + random() % 4, 1 + random() % 3, random);
    CheckMoves(shape, from, to);
  }
}

TEST(ReshardPlanner, TakesTheCheapestReplica) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    Shape shape{DType::kF32, {4, 6}};
    const auto from = RandomShards(shape, 4, 2, random);
    const auto to = RandomShards(shape, 4, 2, random);
    auto plan = PlanReshard(from, to);
    ASSERT_TRUE(plan.ok());
    const auto distance = [&](size_t s, size_t d) {
      if (from[s].place == to[d].place) return 0;
      if (from[s].place.seat == to[d].place.seat) return 1;
      return from[s].slice == to[d].slice ? 2 : 3;
    };
    for (const ReshardPiece& piece : *plan) {
      for (size_t other = 0; other < from.size(); ++other) {
        if (!(from[other].box == from[piece.source].box)) continue;
        EXPECT_LE(distance(piece.source, piece.destination), distance(other, piece.destination));
      }
    }
  }
}

TEST(ReshardPlanner, SpreadsReplicasOverSenders) {
  const Box whole{{0}, {8}};
  std::vector<ShardPlace> from, to;
  for (int i = 0; i < 4; ++i) from.push_back(ShardPlace{{i, 0}, i, whole});
  for (int i = 0; i < 8; ++i) to.push_back(ShardPlace{{10 + i, 0}, 10 + i, whole});
  auto plan = PlanReshard(from, to);
  ASSERT_TRUE(plan.ok());
  std::vector<int> sends(4, 0);
  for (const ReshardPiece& piece : *plan) ++sends[piece.source];
  EXPECT_EQ(sends, (std::vector<int>{2, 2, 2, 2}));
}

TEST(ReshardPlanner, RefusesWhatTheSourceDoesNotHold) {
  const std::vector<ShardPlace> from = {{{0, 0}, 0, Box{{0}, {4}}}};
  const std::vector<ShardPlace> to = {{{1, 0}, 0, Box{{2}, {4}}}};
  EXPECT_THAT(std::string(PlanReshard(from, to).status().message()), HasSubstr("holds 2 of the 4"));
}

TEST(ReshardPlanner, ScalarsMoveWhole) {
  const std::vector<ShardPlace> from = {{{0, 0}, 0, Box{}}};
  const std::vector<ShardPlace> to = {{{1, 0}, 0, Box{}}, {{0, 0}, 0, Box{}}};
  auto plan = PlanReshard(from, to);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->size(), 2u);
}

}  // namespace
}  // namespace switchtower
