#include "resource_manager/cluster_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::HasSubstr;

std::function<uint64_t()> Counter() {
  return [n = uint64_t{1000}]() mutable { return n += 2; };
}

Registration Host(std::string slice, int host, int devices = 2) {
  Registration registration;
  registration.slice = std::move(slice);
  registration.host_index = host;
  registration.worker.num_devices = devices;
  registration.worker.device_type = {"cpu", "cpu", "avx2", {"device"}};
  registration.worker.command_addresses = {"tcp:127.0.0.1:1"};
  return registration;
}

ClusterTable TwoByTwo() { return ClusterTable({2, "cpu:2x2"}, Counter(), 7); }

TEST(SliceType, ParsesHostsAndDevices) {
  EXPECT_EQ(SliceType::Parse("cpu:2x4")->hosts, 2);
  EXPECT_EQ(SliceType::Parse("cpu:4")->devices_per_host, 4);
  EXPECT_EQ(SliceType::Parse("tpuv5e:4x4x2")->hosts, 16);
  for (const char* bad : {"cpu", ":2", "cpu:", "cpu:0x2", "cpu:2x", "cpu:ax2", "cpu:99999999x2"}) {
    EXPECT_FALSE(SliceType::Parse(bad).ok()) << bad;
  }
}

TEST(ClusterTable, PlacesWorkersAndSharesAllSlices) {
  ClusterTable table = TwoByTwo();
  const auto lease = table.Acquire({});
  ASSERT_TRUE(lease.ok());
  EXPECT_FALSE(table.State(*lease)->slices[0].whole());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(table.Register(Host("", -1)).ok());
  const LeaseState state = *table.State(*lease);
  ASSERT_EQ(state.slices.size(), 2u);
  EXPECT_TRUE(state.slices[0].whole());
  EXPECT_TRUE(state.slices[1].whole());
  EXPECT_EQ(state.slices[1].workers[1].host_index, 1);
  EXPECT_EQ(table.TakeChanged(), std::vector<LeaseId>{*lease});
  EXPECT_TRUE(table.TakeChanged().empty());
  EXPECT_FALSE(table.Register(Host("", -1)).ok());
}

TEST(ClusterTable, SharedHomeIsOne) {
  ClusterTable table = TwoByTwo();
  ASSERT_TRUE(table.Acquire({{}, "proxy a"}).ok());
  const auto second = table.Acquire({{}, "proxy b"});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("proxy a"));
}

TEST(ClusterTable, ANewHomeHasAHigherEpoch) {
  ClusterTable table = TwoByTwo();
  EXPECT_EQ(table.SharedLease(), std::nullopt);
  const auto home = table.Acquire({{}, "proxy a"});
  ASSERT_TRUE(home.ok());
  EXPECT_EQ(table.SharedLease(), *home);
  const uint64_t epoch = table.State(*home)->home_epoch;
  table.Release(*home);
  EXPECT_EQ(table.SharedLease(), std::nullopt);
  const auto next = table.Acquire({{}, "proxy b"});
  ASSERT_TRUE(next.ok());
  EXPECT_GT(table.State(*next)->home_epoch, epoch);
}

TEST(ClusterTable, ExclusiveLeasesNeverOverlap) {
  ClusterTable table = TwoByTwo();
  const auto one = table.Acquire({{{"cpu:2x2"}}, "a"});
  const auto two = table.Acquire({{{"cpu:2x2"}}, "b"});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(table.State(*one)->slices[0].name, table.State(*two)->slices[0].name);
  EXPECT_LT(table.State(*one)->home_epoch, table.State(*two)->home_epoch);
  EXPECT_EQ(table.Acquire({{{"cpu:2x2"}}, "c"}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.Acquire({{{"cpu:4x4"}}, "c"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Acquire({}).status().code(), absl::StatusCode::kResourceExhausted);
  table.Release(*one);
  EXPECT_TRUE(table.Acquire({{{"cpu:2x2"}}, "c"}).ok());
}

TEST(ClusterTable, SharedSlicesAreNotGivenExclusively) {
  ClusterTable table = TwoByTwo();
  const auto shared = table.Acquire({});
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(table.Acquire({{{"cpu:2x2"}}, "c"}).status().code(), absl::StatusCode::kResourceExhausted);
  table.Release(*shared);
  EXPECT_TRUE(table.Acquire({{{"cpu:2x2"}}, "c"}).ok());
}

TEST(ClusterTable, LostWorkerChangesItsLeaseAndComesBackAsAnother) {
  ClusterTable table = TwoByTwo();
  const auto lease = table.Acquire({});
  const auto worker = table.Register(Host("slice1", 0));
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(table.GrantsOf(worker->id).size(), 1u);
  EXPECT_EQ(table.Register(Host("slice1", 0)).status().code(), absl::StatusCode::kAlreadyExists);
  table.TakeChanged();
  const uint64_t version = table.State(*lease)->version;
  table.Remove(worker->id);
  EXPECT_EQ(table.TakeChanged().size(), 1u);
  EXPECT_GT(table.State(*lease)->version, version);
  const auto again = table.Register(Host("slice1", 0));
  ASSERT_TRUE(again.ok());
  EXPECT_NE(again->id, worker->id);
}

TEST(ClusterTable, RefusesWorkersThatDoNotFit) {
  ClusterTable table = TwoByTwo();
  EXPECT_THAT(std::string(table.Register(Host("slice0", 0, 3)).status().message()), HasSubstr("3 devices"));
  EXPECT_THAT(std::string(table.Register(Host("slice0", 5)).status().message()), HasSubstr("out of range"));
  EXPECT_THAT(std::string(table.Register(Host("slice9", 0)).status().message()), HasSubstr("slice9"));
  ASSERT_TRUE(table.Register(Host("slice0", 0)).ok());
  Registration other = Host("slice0", 1);
  other.worker.device_type.instruction_set = "avx512";
  EXPECT_THAT(std::string(table.Register(other).status().message()), HasSubstr("CPU features"));
  other = Host("slice0", 1);
  other.worker.device_type.platform = "cuda";
  EXPECT_THAT(std::string(table.Register(other).status().message()), HasSubstr("platform"));
}

TEST(ClusterTable, AWorkerThatIsRefusedSettlesNothing) {
  ClusterTable table({1, "any:2x2"}, Counter(), 7);
  Registration cuda = Host("", -1, 3);
  cuda.worker.device_type.platform = "cuda";
  ASSERT_THAT(std::string(table.Register(cuda).status().message()), HasSubstr("3 devices"));
  ASSERT_TRUE(table.Register(Host("", -1)).ok());
  EXPECT_EQ(table.Slices()[0].type, "cpu:2x2");
}

TEST(ClusterTable, AFullSliceSaysSo) {
  ClusterTable table = TwoByTwo();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(table.Register(Host("slice0", -1)).ok());
  EXPECT_THAT(std::string(table.Register(Host("slice0", -1)).status().message()), HasSubstr("all of its 2 hosts"));
}

}  // namespace
}  // namespace switchtower
