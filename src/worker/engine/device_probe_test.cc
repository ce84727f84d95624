#include "worker/engine/device_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::StartsWith;

constexpr char kCpu[] = "processor\t: 0\nmodel name\t: Fast CPU 3\nflags\t\t: avx avx2 fma\n";

TEST(DeviceProbeTest, NamesModelAndHashesTheRest) {
  const std::string set = DescribeInstructionSet(kCpu, "build 1");
  EXPECT_THAT(set, StartsWith("Fast CPU 3 "));
  EXPECT_EQ(set, DescribeInstructionSet(kCpu, "build 1"));
  EXPECT_NE(set, DescribeInstructionSet(kCpu, "build 2"));
}

TEST(DeviceProbeTest, OrderOfFlagsIsNoDifferenceButAFlagIs) {
  const std::string set = DescribeInstructionSet(kCpu, "b");
  EXPECT_EQ(set, DescribeInstructionSet("model name : Fast CPU 3\nflags : fma avx2 avx\n", "b"));
  EXPECT_NE(set, DescribeInstructionSet("model name : Fast CPU 3\nflags : fma avx2 avx avx512f\n", "b"));
}

TEST(DeviceProbeTest, UnknownCpu) {
  EXPECT_THAT(DescribeInstructionSet("", "b"), StartsWith("unknown CPU "));
  EXPECT_THAT(DescribeInstructionSet("CPU part : 0xd40\nFeatures : asimd\n", "b"), StartsWith("0xd40 "));
}

}  // namespace
}  // namespace switchtower
