#include "worker/collective/exchange_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "worker/collective/small_floats.h"
#include "worker/collective/testing_everywhere.h"

namespace switchtower {
namespace {

template <typename T, typename Op>
std::vector<char> FoldBytes(const std::vector<const char*>& sources, size_t bytes, T start, Op op) {
  std::vector<char> out(bytes);
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T acc = start;
    for (const char* source : sources) {
      T value;
      std::memcpy(&value, source + i, sizeof(T));
      acc = op(acc, value);
    }
    std::memcpy(out.data() + i, &acc, sizeof(T));
  }
  return out;
}

// Written for the test alone, element by element.
std::vector<char> ReferenceSum(DType dtype, const std::vector<const char*>& sources, size_t bytes) {
  switch (dtype) {
    case DType::kF32:
      return FoldBytes<float>(sources, bytes, 0, std::plus<float>());
    case DType::kC64:
      return FoldBytes<float>(sources, bytes, 0, std::plus<float>());
    case DType::kF64:
      return FoldBytes<double>(sources, bytes, 0, std::plus<double>());
    case DType::kS32:
      return FoldBytes<uint32_t>(sources, bytes, 0, std::plus<uint32_t>());
    case DType::kS64:
      return FoldBytes<uint64_t>(sources, bytes, 0, std::plus<uint64_t>());
    case DType::kU8:
      return FoldBytes<uint8_t>(sources, bytes, 0, std::plus<uint8_t>());
    case DType::kF16:
      return FoldBytes<_Float16>(sources, bytes, 0, [](_Float16 a, _Float16 b) {
        return static_cast<_Float16>(static_cast<float>(a) + static_cast<float>(b));
      });
    case DType::kBF16:
      return FoldBytes<uint16_t>(sources, bytes, 0,
                                 [](uint16_t a, uint16_t b) { return ToBFloat16(FromBFloat16(a) + FromBFloat16(b)); });
    default:
      ADD_FAILURE();
      return {};
  }
}

CollectiveShape AllReduceOf(std::vector<std::pair<DType, int64_t>> buffers, ReductionKind kind = ReductionKind::kSum) {
  CollectiveShape shape;
  shape.kind = CollectiveKind::kAllReduce;
  shape.reduction = kind;
  for (const auto& [dtype, elements] : buffers) {
    shape.operands.push_back({dtype, elements});
    shape.results.push_back({dtype, elements});
  }
  return shape;
}

Reference SumReference(const CollectiveShape& shape) {
  return [shape](const TestRun& run, const std::vector<int64_t>& group, size_t) {
    std::vector<std::vector<char>> expected;
    for (size_t k = 0; k < shape.operands.size(); ++k) {
      std::vector<const char*> sources;
      for (int64_t rank : group) sources.push_back(run.ranks[rank]->operands[k].data());
      expected.push_back(ReferenceSum(shape.operands[k].dtype, sources, shape.operands[k].bytes()));
    }
    return expected;
  };
}

TEST(AllReduceTest, SameBitsEverywhereForEachTypeAndSize) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kS32, DType::kS64, DType::kU8, DType::kC64}) {
    // Both sides of the limit between one phase and two, and sizes that don't divide.
    for (const int64_t elements : {1, 999, 70001}) {
      for (const auto& groups : {kOneGroup, kTwoGroups}) {
        SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(elements));
        const CollectiveShape shape = AllReduceOf({{dtype, elements}});
        ExpectEverywhere(shape, groups, SumReference(shape));
      }
    }
  }
}

TEST(AllReduceTest, Variadic) {
  for (const int64_t n : {3, 50001}) {
    const CollectiveShape shape =
        AllReduceOf({{DType::kU8, 3}, {DType::kF32, n}, {DType::kBF16, n + 1}, {DType::kF64, 0}, {DType::kS32, 1}});
    ExpectEverywhere(shape, kTwoGroups, SumReference(shape));
  }
}

TEST(AllReduceTest, PredAndMaximum) {
  const CollectiveShape any = AllReduceOf({{DType::kPred, 33}}, ReductionKind::kOr);
  ExpectEverywhere(any, kOneGroup, [](const TestRun& run, const std::vector<int64_t>& group, size_t) {
    std::vector<const char*> sources;
    for (int64_t rank : group) sources.push_back(run.ranks[rank]->operands[0].data());
    return One(FoldBytes<uint8_t>(sources, 33, 0, [](uint8_t a, uint8_t b) { return a | b; }));
  });
  const CollectiveShape max = AllReduceOf({{DType::kF32, 40000}}, ReductionKind::kMax);
  ExpectEverywhere(max, kTwoGroups, [](const TestRun& run, const std::vector<int64_t>& group, size_t) {
    std::vector<const char*> sources;
    for (int64_t rank : group) sources.push_back(run.ranks[rank]->operands[0].data());
    return One(FoldBytes<float>(sources, 160000, -1e30f, [](float a, float b) { return std::max(a, b); }));
  });
}

TEST(ReduceScatterTest, EachPositionGetsItsChunks) {
  for (const auto& groups : {kOneGroup, kTwoGroups}) {
    const auto size = static_cast<int64_t>(groups[0].size());
    for (const auto& [outer, chunk] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 4}, {7, 12}, {1, 20000}, {1000, 8}, {3, 8004}}) {
      for (const DType dtype : {DType::kF32, DType::kF16}) {
        const CollectiveShape shape =
            Blocks(CollectiveKind::kReduceScatter, dtype, {{outer, chunk}, {2, 8}}, size, true, false);
        ExpectEverywhere(shape, groups, [&](const TestRun& run, const std::vector<int64_t>& group, size_t position) {
          std::vector<std::vector<char>> expected;
          for (size_t k = 0; k < 2; ++k) {
            std::vector<const char*> sources;
            for (int64_t rank : group) sources.push_back(run.ranks[rank]->operands[k].data());
            const auto sum = ReferenceSum(dtype, sources, shape.operands[k].bytes());
            std::vector<char>& out = expected.emplace_back();
            for (int64_t b = 0; b < shape.outer[k]; ++b) {
              const auto at = sum.begin() + (b * size + static_cast<int64_t>(position)) * shape.chunk_bytes[k];
              out.insert(out.end(), at, at + shape.chunk_bytes[k]);
            }
          }
          return expected;
        });
      }
    }
  }
}

TEST(ExchangeEngineTest, ManyIterationsOpsAndGroupsAtOnce) {
  TestCluster cluster({0, 0, 1, 1, 2, 2, 3, 3});
  const LaunchId launch{1, 7};
  cluster.Begin(launch);
  const CollectiveShape shape = AllReduceOf({{DType::kS32, 1}});
  struct Item {
    TestCollective collective;
    TestRun run;
  };
  std::vector<Item> items;
  for (uint32_t op = 1; op <= 4; ++op) {
    for (uint32_t iteration = 0; iteration < 25; ++iteration) {
      TestCollective collective{shape, op % 2 == 0 ? kOneGroup : kTwoGroups, launch, op, iteration};
      items.push_back({collective, MakeRun(cluster, shape, [&](int rank, int, std::vector<char>& bytes) {
                         const int32_t value = static_cast<int32_t>(op * 10000 + iteration * 100) + rank;
                         std::memcpy(bytes.data(), &value, 4);
                       })});
    }
  }
  // Each rank comes to them in an order of its own.
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<size_t> order(items.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(rank));
      for (size_t i : order) JoinRank(cluster, items[i].collective, items[i].run, rank);
    });
  }
  for (auto& thread : threads) thread.join();
  for (Item& item : items) {
    const int32_t base = static_cast<int32_t>(item.collective.op_id * 10000 + item.collective.iteration * 100);
    for (int rank = 0; rank < 8; ++rank) {
      ASSERT_TRUE(item.run.ranks[rank]->outcome.Wait().ok());
      int32_t value;
      std::memcpy(&value, item.run.ranks[rank]->results[0].data(), 4);
      const int32_t expected = item.collective.op_id % 2 == 0 ? 8 * base + 28 : 4 * base + (rank % 2 == 0 ? 12 : 16);
      ASSERT_EQ(value, expected);
      ASSERT_EQ(item.run.ranks[rank]->outcome.calls(), 1);
    }
  }
  EXPECT_EQ(cluster.of(0).engine->stats().operations, 200);
}

TEST(ExchangeEngineTest, OperandMayBeTheResult) {
  TestCluster cluster({0, 0, 1, 1, 2, 2, 3, 3});
  cluster.Begin({1, 1});
  const CollectiveShape shape = AllReduceOf({{DType::kF32, 100000}});
  TestCollective collective{shape, kOneGroup};
  TestRun run = MakeRun(cluster, shape, RandomFill(shape));
  const auto expected = SumReference(shape)(run, kOneGroup[0], 0)[0];
  for (int rank = 0; rank < 8; ++rank) {
    // Swapped: the buffer that holds the operand becomes the result's as well.
    MemberCall call;
    call.launch = collective.launch;
    call.op_id = 1;
    call.shape = shape;
    call.plan = cluster.of(rank).engine->Plan(cluster.of(rank).gang, kOneGroup[0]).value();
    call.position = rank;
    call.operands.push_back(run.ranks[rank]->operands[0].data());
    call.results.push_back(run.ranks[rank]->operands[0].data());
    call.done = [rank = run.ranks[rank]](absl::Status status) { rank->outcome.Set(std::move(status)); };
    cluster.of(rank).engine->Join(std::move(call));
  }
  for (auto& rank : run.ranks) {
    ASSERT_TRUE(rank->outcome.Wait().ok());
    ASSERT_TRUE(rank->operands[0] == expected);
  }
}

}  // namespace
}  // namespace switchtower
