#include "controller/arrays/array_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/arrays/device_table.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;

class ArrayTableTest : public ::testing::Test {
 protected:
  ArrayTableTest()
      : losses(std::make_shared<LossLedger>()), table(losses), devices(TwoHosts(), {"device", "pinned_host"}) {}

  static std::vector<SeatedSlice> TwoHosts() {
    SeatedSlice slice;
    slice.info.name = "s0";
    slice.info.num_hosts = 2;
    slice.info.devices_per_host = 2;
    slice.first_seat = 0;
    return {slice};
  }
  ArrayInfoPtr Info(std::vector<DeviceId> ids) {
    ArraySpec spec;
    spec.shape = Shape{DType::kF32, {4}};
    spec.sharding.kind = Sharding::Kind::kReplicated;
    spec.sharding.devices = std::move(ids);
    return *devices.Describe(spec);
  }
  std::string Message(ArrayId id) { return std::string(table.Live(id).status().message()); }

  std::shared_ptr<LossLedger> losses;
  ArrayTable table;
  DeviceTable devices;
};

TEST_F(ArrayTableTest, HandlesAreUniqueKnownAndRemembered) {
  ASSERT_TRUE(table.Bind(ArrayId{1}, Info({{0}}), 0, 77).ok());
  EXPECT_TRUE(table.Live(ArrayId{1}).ok());
  EXPECT_FALSE(table.Bind(ArrayId{1}, Info({{1}}), 0, 78).ok());
  EXPECT_FALSE(table.Bind(ArrayId{0}, Info({{1}}), 0, 78).ok());
  EXPECT_THAT(Message(ArrayId{2}), HasSubstr("handle 2 isn't known"));
  table.MarkDeleted(*table.Find(ArrayId{1}), "deleted");
  EXPECT_THAT(Message(ArrayId{1}), HasSubstr("Array has been deleted with shape=f32[4]"));
}

TEST_F(ArrayTableTest, ErrorsAreTheValue) {
  ASSERT_TRUE(table.BindError(ArrayId{3}, nullptr, absl::UnimplementedError("no such thing")).ok());
  EXPECT_EQ(table.Live(ArrayId{3}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ArrayTableTest, ALostSeatTakesOlderArraysAlong) {
  ASSERT_TRUE(table.Bind(ArrayId{1}, Info({{0}, {2}}), losses->now(), 77).ok());
  ASSERT_TRUE(table.Bind(ArrayId{2}, Info({{0}, {1}}), losses->now(), 0).ok());
  losses->Lost(1, "slice s0 host 1", "killed");
  absl::Status lost = table.Live(ArrayId{1}).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("slice s0 host 1: worker lost: killed"));
  EXPECT_EQ(*lost.GetPayload(kUserContextPayload), "77");
  EXPECT_TRUE(table.Live(ArrayId{2}).ok());              // no shard there
  EXPECT_TRUE(table.LiveOn(ArrayId{1}, {0}).ok());       // S-7: the healthy shard
  EXPECT_FALSE(losses->Check({1}, losses->now()).ok());  // still down
  losses->Returned(1);
  EXPECT_TRUE(losses->Check({1}, losses->now()).ok());
  ASSERT_TRUE(table.Bind(ArrayId{4}, Info({{2}}), losses->now(), 0).ok());
  EXPECT_TRUE(table.Live(ArrayId{4}).ok());
  EXPECT_FALSE(table.Live(ArrayId{1}).ok());  // what was lost stays lost
}

TEST_F(ArrayTableTest, DevicesAreNumberedBySliceHostAndOrdinal) {
  EXPECT_EQ(devices.devices().size(), 4u);
  EXPECT_EQ(devices.devices()[3].task_index, 1);
  EXPECT_EQ(devices.devices()[3].ordinal_on_host, 1);
  EXPECT_EQ(devices.devices()[3].coords, (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(devices.Memories().size(), 8u);
  const std::vector<DeviceId> list = {{3}, {0}};
  EXPECT_EQ(devices.Intern(list)->get(), devices.Intern(list)->get());
  EXPECT_FALSE(devices.Intern(std::vector<DeviceId>{{0}, {0}}).ok());
  EXPECT_FALSE(devices.Intern(std::vector<DeviceId>{{4}}).ok());
  EXPECT_TRUE(devices.SameMemory("", "device"));
  EXPECT_FALSE(devices.SameMemory("", "pinned_host"));
}

TEST_F(ArrayTableTest, DescriptionsFromOutsideAreChecked) {
  ArraySpec spec = Info({{0}})->spec;
  spec.sharding.memory_kind = "disk";
  EXPECT_THAT(std::string(devices.Describe(spec).status().message()), HasSubstr("no memory of kind \"disk\""));
  spec.sharding.memory_kind = "";
  spec.layout = Layout{{0, 1}};
  EXPECT_THAT(std::string(devices.Describe(spec).status().message()), HasSubstr("layout"));
  spec.layout = Layout{{0}};
  EXPECT_TRUE(devices.Describe(spec).ok());
}

}  // namespace
}  // namespace switchtower
