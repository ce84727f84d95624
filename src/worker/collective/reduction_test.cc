#include "worker/collective/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "worker/collective/fp_mode.h"
#include "worker/collective/small_floats.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> ReduceAll(DType dtype, ReductionKind kind, const std::vector<std::vector<T>>& inputs) {
  const Reducer reducer = FindReducer(dtype, kind).value();
  std::vector<const char*> sources;
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const char*>(input.data()));
  std::vector<T> out(inputs[0].size());
  char* destination = reinterpret_cast<char*>(out.data());
  Reduce(reducer, sources, absl::MakeConstSpan(&destination, 1), out.size());
  return out;
}

TEST(ReductionTest, SumsInOrderOfTheSources) {
  // 1e8 + 1 - 1e8 differs from 1e8 - 1e8 + 1 in f32.
  EXPECT_THAT(ReduceAll<float>(DType::kF32, ReductionKind::kSum, {{1e8f}, {1.0f}, {-1e8f}}), ElementsAre(0.0f));
  EXPECT_THAT(ReduceAll<float>(DType::kF32, ReductionKind::kSum, {{1e8f}, {-1e8f}, {1.0f}}), ElementsAre(1.0f));
}

TEST(ReductionTest, SumOfNegativeZerosIsPositive) {
  const auto sum = ReduceAll<float>(DType::kF32, ReductionKind::kSum, {{-0.0f}, {-0.0f}});
  EXPECT_FALSE(std::signbit(sum[0]));
}

TEST(ReductionTest, NaNWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto kind : {ReductionKind::kMin, ReductionKind::kMax}) {
    const auto out = ReduceAll<float>(DType::kF32, kind, {{nan, 1, 2}, {1, nan, 3}, {5, 5, 5}});
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_EQ(out[2], kind == ReductionKind::kMin ? 2 : 5);
  }
}

TEST(ReductionTest, IntegersWrapAndKeepTheirSign) {
  EXPECT_THAT(ReduceAll<int8_t>(DType::kS8, ReductionKind::kSum, {{127, -128}, {1, -1}}), ElementsAre(-128, 127));
  EXPECT_THAT(ReduceAll<int16_t>(DType::kS16, ReductionKind::kProduct, {{-300}, {300}}),
              ElementsAre(static_cast<int16_t>(-90000)));
  EXPECT_THAT(ReduceAll<int8_t>(DType::kS8, ReductionKind::kMin, {{-1}, {1}}), ElementsAre(-1));
  EXPECT_THAT(ReduceAll<uint8_t>(DType::kU8, ReductionKind::kMin, {{255}, {1}}), ElementsAre(1));
  EXPECT_THAT(ReduceAll<int32_t>(DType::kS32, ReductionKind::kXor, {{6}, {3}}), ElementsAre(5));
}

TEST(ReductionTest, Pred) {
  EXPECT_THAT(ReduceAll<uint8_t>(DType::kPred, ReductionKind::kAnd, {{1, 1, 0}, {1, 0, 0}}), ElementsAre(1, 0, 0));
  EXPECT_THAT(ReduceAll<uint8_t>(DType::kPred, ReductionKind::kOr, {{1, 1, 0}, {1, 0, 0}}), ElementsAre(1, 1, 0));
}

TEST(ReductionTest, Complex) {
  using C = std::complex<float>;
  EXPECT_THAT(ReduceAll<C>(DType::kC64, ReductionKind::kProduct, {{C(1, 2)}, {C(3, -1)}}), ElementsAre(C(5, 5)));
  EXPECT_FALSE(FindReducer(DType::kC64, ReductionKind::kMax).ok());
  EXPECT_FALSE(FindReducer(DType::kF32, ReductionKind::kAnd).ok());
  EXPECT_FALSE(FindReducer(DType::kToken, ReductionKind::kSum).ok());
}

TEST(ReductionTest, SmallFloatsRoundAtEachStep) {
  // 2048 + 1 is a tie in f16 and rounds to the even 2048, each time.
  const uint16_t big = ToHalf(2048), one = ToHalf(1);
  EXPECT_THAT(ReduceAll<uint16_t>(DType::kF16, ReductionKind::kSum, {{big}, {one}, {one}}), ElementsAre(big));
  const uint16_t b256 = ToBFloat16(256), b1 = ToBFloat16(1);
  EXPECT_THAT(ReduceAll<uint16_t>(DType::kBF16, ReductionKind::kSum, {{b256}, {b1}, {b1}}), ElementsAre(b256));
}

TEST(SmallFloatsTest, HalfMatchesTheCompilersOwn) {
  for (int flush = 0; flush < 2; ++flush) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      _Float16 native;
      std::memcpy(&native, &half, sizeof(native));
      const auto expected = static_cast<float>(native);
      float value;
      uint16_t back;
      if (flush == 0) {
        value = FromHalf(half);
        back = ToHalf(value);
      } else {
        ScopedXlaFloatMode mode;
        value = FromHalf(half);
        back = ToHalf(value);
      }
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value) && std::isnan(FromHalf(back))) << bits;
      } else {
        ASSERT_EQ(value, expected) << bits;
        ASSERT_EQ(back, half) << bits;
      }
    }
  }
}

TEST(SmallFloatsTest, RoundsToNearestEven) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    const auto native = static_cast<_Float16>(value);
    uint16_t expected;
    std::memcpy(&expected, &native, sizeof(expected));
    ASSERT_EQ(ToHalf(value), expected) << value;
  }
  EXPECT_EQ(ToBFloat16(1.00390625f), 0x3f80);  // a tie, to even
  EXPECT_EQ(ToBFloat16(1.01171875f), 0x3f82);  // a tie, to even
  EXPECT_EQ(FromBFloat16(ToBFloat16(-3.0f)), -3.0f);
}

TEST(ReductionTest, ShardsEqualTheWhole) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> values(-1, 1);
  const Reducer reducer = FindReducer(DType::kF32, ReductionKind::kSum).value();
  for (const int64_t block : {4, 12, 400, 40000}) {
    const int64_t blocks = 80000 / block, positions = 3;
    std::vector<std::vector<float>> inputs(4, std::vector<float>(blocks * positions * block / 4));
    for (auto& input : inputs) {
      for (float& v : input) v = values(random);
    }
    const auto whole = ReduceAll<float>(DType::kF32, ReductionKind::kSum, inputs);
    std::vector<StridedSource> sources;
    for (const auto& input : inputs) {
      sources.push_back({reinterpret_cast<const char*>(input.data()) + block, positions * block});
    }
    std::vector<float> shard(blocks * block / 4);
    const int64_t cut = (blocks * block / 4 / 3) * 4;
    ReduceShard(reducer, sources, block, 0, cut, reinterpret_cast<char*>(shard.data()));
    ReduceShard(reducer, sources, block, cut, blocks * block, reinterpret_cast<char*>(shard.data()));
    for (int64_t b = 0; b < blocks; ++b) {
      ASSERT_EQ(std::memcmp(reinterpret_cast<char*>(shard.data()) + b * block,
                            reinterpret_cast<const char*>(whole.data()) + (b * positions + 1) * block, block),
                0);
    }
  }
}

}  // namespace
}  // namespace switchtower
