// Collectives that move bytes without folding them.
#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "worker/collective/testing_everywhere.h"

namespace switchtower {
namespace {

TEST(AllGatherTest, ChunksLieByPosition) {
  for (const auto& groups : {kOneGroup, kTwoGroups}) {
    const auto size = static_cast<int64_t>(groups[0].size());
    for (const auto& [outer, chunk] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {9, 3}, {1, 100000}, {4000, 16}}) {
      const CollectiveShape shape =
          Blocks(CollectiveKind::kAllGather, DType::kU8, {{outer, chunk}, {1, 5}}, size, false, true);
      ExpectEverywhere(shape, groups, [&](const TestRun& run, const std::vector<int64_t>& group, size_t) {
        std::vector<std::vector<char>> expected;
        for (size_t k = 0; k < 2; ++k) {
          std::vector<char>& out = expected.emplace_back();
          for (int64_t b = 0; b < shape.outer[k]; ++b) {
            for (int64_t rank : group) {
              const auto at = run.ranks[rank]->operands[k].begin() + b * shape.chunk_bytes[k];
              out.insert(out.end(), at, at + shape.chunk_bytes[k]);
            }
          }
        }
        return expected;
      });
    }
  }
}

TEST(AllToAllTest, TupleAndArray) {
  for (const auto& groups : {kOneGroup, kTwoGroups}) {
    const size_t size = groups[0].size();
    for (const int64_t elements : {1, 30000}) {
      CollectiveShape shape;
      shape.kind = CollectiveKind::kAllToAll;
      shape.operands.resize(size, {DType::kF32, elements});
      shape.results = shape.operands;
      ExpectEverywhere(shape, groups, [&](const TestRun& run, const std::vector<int64_t>& group, size_t position) {
        std::vector<std::vector<char>> expected;
        for (int64_t rank : group) expected.push_back(run.ranks[rank]->operands[position]);
        return expected;
      });
    }
    for (const auto& [outer, chunk] : std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {10, 4}, {2, 50000}}) {
      const CollectiveShape shape =
          Blocks(CollectiveKind::kAllToAllArray, DType::kU8, {{outer, chunk}}, static_cast<int64_t>(size), true, true);
      ExpectEverywhere(shape, groups, [&](const TestRun& run, const std::vector<int64_t>& group, size_t position) {
        std::vector<char> out;
        for (int64_t b = 0; b < shape.outer[0]; ++b) {
          for (int64_t rank : group) {
            const auto at = run.ranks[rank]->operands[0].begin() +
                            (b * static_cast<int64_t>(size) + static_cast<int64_t>(position)) * shape.chunk_bytes[0];
            out.insert(out.end(), at, at + shape.chunk_bytes[0]);
          }
        }
        return One(std::move(out));
      });
    }
  }
}

TEST(PermuteTest, CopiesOrZeros) {
  for (const std::vector<int>& source_of :
       {std::vector<int>{7, 0, 1, 2, 3, 4, 5, 6}, {-1, 0, 1, -1, 5, 4, -1, -1}, {3, 3, 3, 3, 3, 3, 3, 3}}) {
    for (const int64_t elements : {1, 40000}) {
      CollectiveShape shape;
      shape.kind = CollectiveKind::kPermute;
      shape.operands = {{DType::kF32, elements}, {DType::kU8, 3}};
      shape.results = shape.operands;
      shape.source_of.assign(source_of.begin(), source_of.end());
      ExpectEverywhere(shape, kOneGroup, [&](const TestRun& run, const std::vector<int64_t>&, size_t position) {
        std::vector<std::vector<char>> expected;
        for (size_t k = 0; k < 2; ++k) {
          const int source = source_of[position];
          expected.push_back(source < 0 ? std::vector<char>(shape.operands[k].bytes())
                                        : run.ranks[source]->operands[k]);
        }
        return expected;
      });
    }
  }
}

// Rank r sends (r + p + u) % 4 rows to position p's slice u; each receiver has room for 4 rows a sender and slice.
TEST(RaggedAllToAllTest, RowsGoWhereTheProgramSays) {
  constexpr int64_t kSlices = 2, kRow = 12;
  const int64_t size = 8, index = size * kSlices;
  CollectiveShape shape;
  shape.kind = CollectiveKind::kRaggedAllToAll;
  shape.row_bytes = kRow;
  shape.operands = {{DType::kU8, index * 4 * kRow}, {DType::kU8, index * 4 * kRow}, {DType::kS32, index},
                    {DType::kS32, index},           {DType::kS32, index},           {DType::kS32, index}};
  shape.results = {{DType::kU8, index * 4 * kRow}};
  const auto rows = [](int64_t from, int64_t to, int64_t u) { return (from + to + u) % 4; };
  const FillFn fill = [&](int rank, int k, std::vector<char>& bytes) {
    FillRandom(DType::kU8, 77 * rank + k + 1, bytes);
    if (k < 2) return;
    for (int64_t p = 0; p < size; ++p) {
      for (int64_t u = 0; u < kSlices; ++u) {
        const int64_t i = p * kSlices + u;
        const int64_t values[] = {i * 4, rows(rank, p, u), (rank * kSlices + u) * 4, rows(p, rank, u)};
        const auto value = static_cast<int32_t>(values[k - 2]);
        std::memcpy(bytes.data() + i * 4, &value, 4);
      }
    }
  };
  ExpectEverywhere(
      shape, kOneGroup,
      [&](const TestRun& run, const std::vector<int64_t>& group, size_t position) {
        std::vector<char> out = run.ranks[group[position]]->operands[1];
        const auto to = static_cast<int64_t>(position);
        for (int64_t from = 0; from < size; ++from) {
          for (int64_t u = 0; u < kSlices; ++u) {
            std::copy_n(run.ranks[from]->operands[0].begin() + (to * kSlices + u) * 4 * kRow, rows(from, to, u) * kRow,
                        out.begin() + (from * kSlices + u) * 4 * kRow);
          }
        }
        return One(std::move(out));
      },
      fill);
}

}  // namespace
}  // namespace switchtower
