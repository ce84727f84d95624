#include "wire/ifrt/array_spec.h"

#include <limits>

#include <gtest/gtest.h>

#include "wire/ifrt/remap_plan.h"
#include "wire/ifrt/shape.h"
#include "xla/python/ifrt/layout_serdes.pb.h"
#include "xla/python/pjrt_ifrt/pjrt_layout_serdes.pb.h"

namespace switchtower {
namespace {

TEST(DTypeTest, EveryKnownTypeGoesBothWays) {
  for (int kind = 0; kind <= 99; ++kind) {
    xla::ifrt::DTypeProto proto, back;
    proto.set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(kind));
    auto dtype = FromProto(proto);
    EXPECT_EQ(dtype.ok(), IsKnown(static_cast<DType>(kind))) << kind;
    if (!dtype.ok()) continue;
    ToProto(*dtype, &back);
    EXPECT_EQ(back.kind(), kind);
  }
  // The two numberings part at 30.
  EXPECT_EQ(static_cast<int>(DType::kF4E2M1FN), xla::ifrt::DTypeProto::KIND_F4E2M1FN);
  EXPECT_EQ(static_cast<int>(DType::kU1), xla::ifrt::DTypeProto::KIND_U1);
}

TEST(ShapeTest, SumsOfBytesStopAtTheMost) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(AddBytes(3, 4), 7);
  EXPECT_EQ(AddBytes(kMost, 1), kMost);
  EXPECT_EQ(AddBytes(kMost, kMost), kMost);
}

TEST(LayoutTest, Text) {
  EXPECT_EQ(ParseLayoutText("{0,1}", 2)->minor_to_major, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(ParseLayoutText("{}", 0)->minor_to_major.size(), 0u);
  EXPECT_EQ(ParseLayoutText("{1,0:E(4)S(5)}", 2)->minor_to_major, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(ParseLayoutText("{1,0:T(8,128)}", 2).status().code(), absl::StatusCode::kUnimplemented);
  for (const char* bad :
       {"", "{", "1,0", "{1,0", "{a}", "{1,1}", "{0}", "{2,0}", "{-1,0}", "{1 0}", "{99999999999999999999,0}"}) {
    EXPECT_FALSE(ParseLayoutText(bad, 2).ok()) << bad;
  }
}

TEST(LayoutTest, Messages) {
  xla::ifrt::LayoutProto proto;
  xla::ifrt::CompactLayoutProto compact;
  compact.add_major_to_minor(1);
  compact.add_major_to_minor(0);
  proto.mutable_serialized_layout()->set_type_name("xla::ifrt::CompactLayout");
  proto.mutable_serialized_layout()->set_data(compact.SerializeAsString());
  EXPECT_EQ(FromProto(proto, 2)->minor_to_major, (std::vector<int64_t>{0, 1}));
  EXPECT_FALSE(FromProto(proto, 3).ok());
  xla::ifrt::PjRtLayoutProto pjrt;
  ToProto(Layout{{1, 0}}, pjrt.mutable_xla_layout());
  proto.mutable_serialized_layout()->set_type_name("xla::ifrt::PjRtLayout");
  proto.mutable_serialized_layout()->set_data(pjrt.SerializeAsString());
  EXPECT_EQ(FromProto(proto, 2)->minor_to_major, (std::vector<int64_t>{1, 0}));
  pjrt.mutable_xla_layout()->add_tiles();
  proto.mutable_serialized_layout()->set_data(pjrt.SerializeAsString());
  EXPECT_EQ(FromProto(proto, 2).status().code(), absl::StatusCode::kUnimplemented);
  proto.mutable_serialized_layout()->set_type_name("x");
  EXPECT_FALSE(FromProto(proto, 2).ok());
}

TEST(StridedBytesTest, SmallestRegion) {
  const Shape shape{DType::kF32, {2, 3}};
  EXPECT_EQ(*StridedBytes(shape, {12, 4}), 24);
  EXPECT_EQ(*StridedBytes(shape, {4, 8}), 24);
  EXPECT_EQ(*StridedBytes(shape, {100, 8}), 120);
  EXPECT_EQ(*StridedBytes(Shape{DType::kF32, {}}, {}), 4);
  EXPECT_EQ(*StridedBytes(Shape{DType::kF32, {0, 3}}, {-1, 7}), 0);
  EXPECT_EQ(*StridedBytes(Shape{DType::kF32, {1, 3}}, {-1, 4}), 12);
  EXPECT_EQ(*StridedBytes(Shape{DType::kS4, {5}}, {1}), 5);
  EXPECT_FALSE(StridedBytes(shape, {12}).ok());
  EXPECT_FALSE(StridedBytes(shape, {12, 0}).ok());
  EXPECT_FALSE(StridedBytes(shape, {12, -4}).ok());
  EXPECT_FALSE(StridedBytes(shape, {12, 6}).ok());
  EXPECT_FALSE(StridedBytes(shape, {int64_t{1} << 62, int64_t{1} << 62}).ok());
}

xla::ifrt::ArraySpecProto Spec(std::vector<int64_t> dims, std::vector<int> devices) {
  xla::ifrt::ArraySpecProto proto;
  proto.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
  ToProto(dims, proto.mutable_shape());
  Sharding sharding;
  for (int device : devices) sharding.devices.push_back(DeviceId{static_cast<uint64_t>(device)});
  sharding.kind = Sharding::Kind::kTiled;
  sharding.tile_dims = {static_cast<int64_t>(devices.size())};
  for (size_t i = 0; i < devices.size(); ++i) sharding.tile_devices.push_back(i);
  EXPECT_TRUE(ToProto(sharding, Shape{DType::kF32, dims}, proto.mutable_sharding()).ok());
  return proto;
}

const DeviceSet kKnown = {DeviceId{0}, DeviceId{1}, DeviceId{2}, DeviceId{3}};

TEST(ArraySpecTest, ChecksItsPartsTogether) {
  xla::ifrt::ArraySpecProto proto = Spec({8}, {0, 1});
  proto.set_layout("{0}");
  auto spec = FromProto(proto, kKnown);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->shape, (Shape{DType::kF32, {8}}));
  EXPECT_TRUE(spec->layout->IsDefault());
  proto.set_layout("{1,0}");
  EXPECT_FALSE(FromProto(proto, kKnown).ok());
  proto.clear_layout();
  proto.mutable_shape()->set_dims(0, -8);
  EXPECT_FALSE(FromProto(proto, kKnown).ok());
  proto.set_version_number(7);
  EXPECT_EQ(FromProto(proto, kKnown).status().code(), absl::StatusCode::kFailedPrecondition);
}

xla::ifrt::RemapPlanProto Interleave() {
  xla::ifrt::RemapPlanProto plan;
  *plan.add_input_specs() = Spec({4}, {0, 1});
  *plan.add_input_specs() = Spec({4}, {2, 3});
  *plan.add_output_specs() = Spec({8}, {0, 2, 1, 3});
  for (int in = 0; in < 2; ++in) {
    auto* mapping = plan.add_mappings();
    mapping->set_in_array(in);
    mapping->add_from_start(0);
    mapping->add_from_end(2);
    mapping->add_from_step(1);
    mapping->add_to_start(in);
    mapping->add_to_end(4);
    mapping->add_to_step(2);
  }
  return plan;
}

TEST(RemapPlanTest, ExpandsIntervals) {
  auto plan = FromProto(Interleave(), kKnown);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->moves.size(), 4u);
  EXPECT_EQ(plan->moves[1].from_shard, 1);
  EXPECT_EQ(plan->moves[1].to_shard, 2);
  EXPECT_EQ(plan->moves[3].in, 1);
  EXPECT_EQ(plan->moves[3].to_shard, 3);
}

TEST(RemapPlanTest, RefusesWhatDoesNotFit) {
  auto broken = [](auto change) {
    xla::ifrt::RemapPlanProto plan = Interleave();
    change(plan);
    return FromProto(plan, kKnown).status();
  };
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(0)->set_in_array(2); }).ok());
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(0)->set_out_array(-1); }).ok());
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(0)->set_from_end(0, 3); }).ok());
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(0)->set_from_step(0, 0); }).ok());
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(0)->set_to_end(0, INT64_MAX); }).ok());
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(1)->set_to_start(0, 0); }).ok());  // twice
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings()->RemoveLast(); }).ok());         // holes
  EXPECT_FALSE(broken([](auto& p) { p.mutable_mappings(0)->add_from_start(0); }).ok());
  EXPECT_FALSE(broken([](auto& p) {
                 p.mutable_mappings(0)->set_to_step(0, INT64_MAX);
                 p.mutable_mappings(0)->set_to_end(0, INT64_MAX);
               }).ok());
}

}  // namespace
}  // namespace switchtower
