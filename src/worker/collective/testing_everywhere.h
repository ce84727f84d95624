// One collective with its ranks placed in processes in many ways, against a reference.
//
// Place:    worker/collective, tests alone.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "worker/collective/small_floats.h"
#include "worker/collective/testing_cluster.h"

namespace switchtower {

inline const std::vector<std::vector<int>>& Placements() {
  static const std::vector<std::vector<int>> placements = {{0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 1, 1, 1},
                                                           {0, 0, 1, 1, 2, 2, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7},
                                                           {0, 1, 2, 3, 0, 1, 2, 3}, {1, 0, 0, 0, 2, 0, 1, 0}};
  return placements;
}
inline const std::vector<std::vector<int64_t>> kOneGroup = {{0, 1, 2, 3, 4, 5, 6, 7}};
inline const std::vector<std::vector<int64_t>> kTwoGroups = {{0, 2, 4, 6}, {7, 5, 3, 1}};

// Random values that are numbers of the type.
inline void FillRandom(DType dtype, uint32_t seed, std::vector<char>& bytes) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 100);
  for (char& byte : bytes) byte = static_cast<char>(random());
  const auto fill = [&](auto make) {
    using T = decltype(make());
    for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
      const T value = make();
      std::memcpy(bytes.data() + i, &value, sizeof(T));
    }
  };
  switch (dtype) {
    case DType::kPred:
      fill([&] { return static_cast<uint8_t>(random() & 1); });
      break;
    case DType::kF16:
      fill([&] { return ToHalf(normal(random)); });
      break;
    case DType::kBF16:
      fill([&] { return ToBFloat16(normal(random)); });
      break;
    case DType::kF32:
    case DType::kC64:
      fill([&] { return normal(random); });
      break;
    case DType::kF64:
      fill([&] { return static_cast<double>(normal(random)); });
      break;
    default:
      break;
  }
}

inline FillFn RandomFill(const CollectiveShape& shape) {
  return [&shape](int rank, int k, std::vector<char>& bytes) {
    FillRandom(shape.operands[k].dtype, 1000 * rank + k + 1, bytes);
  };
}

// Joins all ranks in a shuffled order, some from other threads, and expects all to end well.
inline TestRun RunAll(TestCluster& cluster, const TestCollective& collective, const FillFn& fill, uint32_t seed = 1) {
  TestRun run = MakeRun(cluster, collective.shape, fill);
  std::vector<int> order(cluster.ranks());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::thread half([&] {
    for (size_t i = 0; i < order.size(); i += 2) JoinRank(cluster, collective, run, order[i]);
  });
  for (size_t i = 1; i < order.size(); i += 2) JoinRank(cluster, collective, run, order[i]);
  half.join();
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const absl::Status status = run.ranks[rank]->outcome.Wait();
    EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status;
  }
  return run;
}

// expected(run, group, position) -> result buffers of that rank.
using Reference = std::function<std::vector<std::vector<char>>(const TestRun&, const std::vector<int64_t>&, size_t)>;

inline void ExpectEverywhere(const CollectiveShape& shape, const std::vector<std::vector<int64_t>>& groups,
                             const Reference& reference, FillFn fill = nullptr) {
  if (fill == nullptr) fill = RandomFill(shape);
  std::map<int64_t, std::vector<std::vector<char>>> expected_of;  // by rank; the operands are always the same
  for (const auto& placement : Placements()) {
    TestCluster cluster(placement);
    const LaunchId launch{1, 1};
    cluster.Begin(launch);
    const TestRun run = RunAll(cluster, {shape, groups, launch}, fill);
    for (const auto& group : groups) {
      for (size_t position = 0; position < group.size(); ++position) {
        auto& expected = expected_of[group[position]];
        if (expected.empty()) expected = reference(run, group, position);
        for (size_t k = 0; k < expected.size(); ++k) {
          ASSERT_TRUE(run.ranks[group[position]]->results[k] == expected[k])
              << Name(shape.kind) << " result " << k << " of rank " << group[position] << " with "
              << cluster.processes().size() << " processes";
        }
      }
    }
    cluster.End(launch);
    for (auto& process : cluster.processes()) EXPECT_TRUE(process.engine->Pending().empty());
  }
}

inline std::vector<std::vector<char>> One(std::vector<char> bytes) {
  std::vector<std::vector<char>> one;
  one.push_back(std::move(bytes));
  return one;
}

inline CollectiveShape Blocks(CollectiveKind kind, DType dtype,
                              std::vector<std::pair<int64_t, int64_t>> outer_and_chunk, int64_t size,
                              bool whole_operand, bool whole_result) {
  CollectiveShape shape;
  shape.kind = kind;
  for (const auto& [outer, chunk] : outer_and_chunk) {
    const int64_t shard = outer * chunk / HostBytes(dtype);
    shape.operands.push_back({dtype, whole_operand ? shard * size : shard});
    shape.results.push_back({dtype, whole_result ? shard * size : shard});
    shape.outer.push_back(outer);
    shape.chunk_bytes.push_back(chunk);
  }
  return shape;
}

}  // namespace switchtower
