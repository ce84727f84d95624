#include "wire/ifrt/sharding.h"

#include <numeric>

#include <gtest/gtest.h>

#include "wire/ifrt/op_sharding.h"
#include "xla/python/ifrt/sharding_serdes.pb.h"
#include "xla/python/pjrt_ifrt/xla_sharding.pb.h"

namespace switchtower {
namespace {

using Kind = Sharding::Kind;

DeviceSet Known(int count) {
  DeviceSet known;
  for (int i = 0; i < count; ++i) known.insert(DeviceId{static_cast<uint64_t>(10 + i)});
  return known;
}

std::vector<DeviceId> Devices(int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.push_back(DeviceId{static_cast<uint64_t>(10 + i)});
  return devices;
}

xla::ifrt::ShardingProto Wrap(const std::string& type, const google::protobuf::Message& message) {
  xla::ifrt::ShardingProto proto;
  proto.mutable_serialized_sharding()->set_type_name("xla::ifrt::" + type);
  proto.mutable_serialized_sharding()->set_data(message.SerializeAsString());
  return proto;
}

const Shape kMatrix{DType::kF32, {8, 6}};

xla::OpSharding Iota(std::vector<int64_t> tiles, std::vector<int64_t> reshape, std::vector<int32_t> permutation) {
  xla::OpSharding proto;
  proto.set_type(xla::OpSharding::OTHER);
  proto.mutable_tile_assignment_dimensions()->Assign(tiles.begin(), tiles.end());
  proto.mutable_iota_reshape_dims()->Assign(reshape.begin(), reshape.end());
  proto.mutable_iota_transpose_perm()->Assign(permutation.begin(), permutation.end());
  return proto;
}

TEST(OpShardingTest, IotaIsReshapedThenTransposed) {
  EXPECT_EQ(*IotaPositions({2, 3}, {1, 0}, 6), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(*IotaPositions({2, 2, 2}, {2, 0, 1}, 8), (std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(*IotaPositions({4}, {0}, 4), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(OpShardingTest, BadIotaIsRefused) {
  EXPECT_FALSE(IotaPositions({2, 2}, {1, 0}, 6).ok());
  EXPECT_FALSE(IotaPositions({2, 3}, {1, 1}, 6).ok());
  EXPECT_FALSE(IotaPositions({2, 3}, {2, 0}, 6).ok());
  EXPECT_FALSE(IotaPositions({2, 3}, {0}, 6).ok());
  EXPECT_FALSE(IotaPositions({int64_t{1} << 62, int64_t{1} << 62}, {0, 1}, 6).ok());
  EXPECT_FALSE(IotaPositions({0, 6}, {0, 1}, 6).ok());
}

// P(None, 'y') on a 2 x 2 mesh: the second mesh axis cuts, the first replicates.
TEST(OpShardingTest, PartialReplicationOfATransposedMesh) {
  xla::OpSharding proto = Iota({1, 2, 2}, {2, 2}, {1, 0});
  proto.set_replicate_on_last_tile_dim(true);
  auto sharding = FromOpSharding(proto, Devices(4), "device", kMatrix);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->kind, Kind::kTiled);
  EXPECT_EQ(sharding->tile_devices, (std::vector<int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(ShardBox(*sharding, kMatrix, 1)->start, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(ShardBox(*sharding, kMatrix, 2)->start, (std::vector<int64_t>{0, 0}));
}

TEST(OpShardingTest, ListedTilesAndSubgroups) {
  xla::OpSharding proto;
  proto.set_type(xla::OpSharding::OTHER);
  for (int dim : {2, 1, 2}) proto.add_tile_assignment_dimensions(dim);
  for (int position : {3, 1, 2, 0}) proto.add_tile_assignment_devices(position);
  proto.add_last_tile_dims(xla::OpSharding::REPLICATED);
  auto sharding = FromOpSharding(proto, Devices(4), "", kMatrix);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(ShardBox(*sharding, kMatrix, 1)->start, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(ShardBox(*sharding, kMatrix, 0)->start, (std::vector<int64_t>{4, 0}));

  proto.set_last_tile_dims(0, xla::OpSharding::MANUAL);
  sharding = FromOpSharding(proto, Devices(4), "", kMatrix);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->kind, Kind::kConcrete);
  EXPECT_EQ(sharding->shard_shapes[3], (std::vector<int64_t>{4, 6}));
}

TEST(OpShardingTest, NothingCutIsReplicated) {
  auto sharding = FromOpSharding(Iota({1, 1}, {1}, {0}), Devices(1), "", kMatrix);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->kind, Kind::kReplicated);
  EXPECT_EQ(FromOpSharding(xla::OpSharding(), Devices(3), "", kMatrix)->kind, Kind::kReplicated);
}

TEST(OpShardingTest, BadTilesAreRefused) {
  EXPECT_FALSE(FromOpSharding(Iota({2, 2}, {2}, {0}), Devices(4), "", kMatrix).ok());
  EXPECT_FALSE(FromOpSharding(Iota({4}, {4}, {0}), Devices(4), "", kMatrix).ok());       // rank
  EXPECT_FALSE(FromOpSharding(Iota({4, 1}, {4}, {0}), Devices(3), "", kMatrix).ok());    // devices
  EXPECT_FALSE(FromOpSharding(Iota({-4, -1}, {4}, {0}), Devices(4), "", kMatrix).ok());  // sign
  EXPECT_FALSE(FromOpSharding(Iota({int64_t{1} << 62, 4}, {4}, {0}), Devices(4), "", kMatrix).ok());
  EXPECT_FALSE(FromOpSharding(Iota({4, 1}, {4}, {0}), {}, "", kMatrix).ok());
  xla::OpSharding twice = Iota({2, 1}, {}, {});
  twice.add_tile_assignment_devices(1);
  twice.add_tile_assignment_devices(1);
  EXPECT_FALSE(FromOpSharding(twice, Devices(2), "", kMatrix).ok());
  xla::OpSharding tuple;
  tuple.set_type(xla::OpSharding::TUPLE);
  EXPECT_EQ(FromOpSharding(tuple, Devices(2), "", kMatrix).status().code(), absl::StatusCode::kUnimplemented);
  xla::OpSharding maximal;
  maximal.set_type(xla::OpSharding::MAXIMAL);
  maximal.add_tile_assignment_devices(7);
  EXPECT_FALSE(FromOpSharding(maximal, Devices(2), "", kMatrix).ok());
}

// Each place of a device would be worked out from all of them.
TEST(OpShardingTest, TileDimensionsOfOneAreBounded) {
  const std::vector<int64_t> ones(1000, 1);
  std::vector<int32_t> order(1000);
  std::iota(order.begin(), order.end(), 0);
  xla::OpSharding groups = Iota({2, 1}, {2}, {0});
  for (size_t i = 0; i < ones.size(); ++i) {
    groups.add_tile_assignment_dimensions(1);
    groups.add_last_tile_dims(xla::OpSharding::REPLICATED);
  }
  EXPECT_FALSE(FromOpSharding(groups, Devices(2), "", kMatrix).ok());
  EXPECT_FALSE(FromOpSharding(Iota({1, 1}, ones, order), Devices(1), "", kMatrix).ok());
}

TEST(NamedShardingTest, AxesOfOneCutNothing) {
  xla::OpSharding proto;
  auto* named = proto.mutable_named_sharding();
  for (int64_t size : {1, 2, 1, 3, 1}) named->mutable_mesh()->add_axes()->set_size(size);
  for (int64_t axis : {4, 3, 0}) named->add_dim_shardings()->add_axes()->set_mesh_axis_index(axis);
  for (int64_t axis : {2, 1}) named->mutable_dim_shardings(2)->add_axes()->set_mesh_axis_index(axis);
  auto sharding = FromOpSharding(proto, Devices(6), "", Shape{DType::kF32, {8, 6, 4}});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->tile_dims, (std::vector<int64_t>{1, 3, 2}));
  EXPECT_EQ(sharding->tile_devices, (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  named->mutable_mesh()->mutable_axes(0)->set_size(0);
  EXPECT_FALSE(FromOpSharding(proto, Devices(6), "", Shape{DType::kF32, {8, 6, 4}}).ok());
}

TEST(NamedShardingTest, AxesAndPartsOfAxes) {
  xla::OpSharding proto;
  auto* named = proto.mutable_named_sharding();
  auto* axis = named->mutable_mesh()->add_axes();
  axis->set_name("x");
  axis->set_size(2);
  axis = named->mutable_mesh()->add_axes();
  axis->set_name("y");
  axis->set_size(4);
  // Dimension 0 by the minor half of y, dimension 1 by nothing: x and the major half of y replicate.
  auto* ref = named->add_dim_shardings()->add_axes();
  ref->set_mesh_axis_index(1);
  ref->mutable_sub_axis_info()->set_pre_size(2);
  ref->mutable_sub_axis_info()->set_size(2);
  named->add_dim_shardings();
  auto sharding = FromOpSharding(proto, Devices(8), "", kMatrix);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->tile_dims, (std::vector<int64_t>{2, 1, 4}));
  EXPECT_EQ(sharding->tile_devices, (std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));

  ref->mutable_sub_axis_info()->set_pre_size(3);
  EXPECT_FALSE(FromOpSharding(proto, Devices(8), "", kMatrix).ok());
  ref->clear_sub_axis_info();
  ref->set_mesh_axis_index(2);
  EXPECT_FALSE(FromOpSharding(proto, Devices(8), "", kMatrix).ok());
  ref->set_mesh_axis_index(1);
  EXPECT_TRUE(FromOpSharding(proto, Devices(8), "", kMatrix).ok());
  EXPECT_FALSE(FromOpSharding(proto, Devices(4), "", kMatrix).ok());
  named->mutable_dim_shardings(1)->add_axes()->set_mesh_axis_index(1);  // the same axis again
  EXPECT_FALSE(FromOpSharding(proto, Devices(8), "", kMatrix).ok());
}

TEST(ShardingTest, SingleDevice) {
  xla::ifrt::SingleDeviceShardingProto single;
  single.set_device_id(11);
  single.set_memory_kind("pinned_host");
  auto sharding = FromProto(Wrap("SingleDeviceSharding", single), kMatrix, Known(2));
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->devices[0], DeviceId{11});
  EXPECT_EQ(sharding->memory_kind, "pinned_host");
  single.set_device_id(-1);
  EXPECT_FALSE(FromProto(Wrap("SingleDeviceSharding", single), kMatrix, Known(2)).ok());
}

TEST(ShardingTest, DevicesMustBeKnownAndComeOnce) {
  const int32_t known[] = {11, 10}, unknown[] = {10, 12}, twice[] = {10, 10}, many[] = {10, 11, 10};
  EXPECT_EQ(ParseDevices(known, 2, Known(2))->front(), DeviceId{11});
  EXPECT_FALSE(ParseDevices(unknown, 2, Known(2)).ok());
  EXPECT_FALSE(ParseDevices(twice, 2, Known(2)).ok());
  EXPECT_FALSE(ParseDevices(many, 3, Known(2)).ok());
}

TEST(ShardingTest, Concrete) {
  xla::ifrt::ConcreteShardingProto proto;
  for (int id : {10, 11}) proto.mutable_devices()->add_device_ids(id);
  for (int dim : {8, 6}) proto.mutable_shape()->add_dims(dim);
  for (int rows : {5, 3}) {
    auto* shard = proto.add_shard_shapes();
    shard->add_dims(rows);
    shard->add_dims(6);
  }
  auto sharding = FromProto(Wrap("ConcreteSharding", proto), kMatrix, Known(2));
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(ShardShape(*sharding, kMatrix, 1)->dims, (std::vector<int64_t>{3, 6}));
  EXPECT_FALSE(FromProto(Wrap("ConcreteSharding", proto), Shape{DType::kF32, {8, 7}}, Known(2)).ok());
  proto.mutable_shard_shapes(0)->set_dims(0, -5);
  EXPECT_FALSE(FromProto(Wrap("ConcreteSharding", proto), kMatrix, Known(2)).ok());
  proto.mutable_dynamic_shape();
  EXPECT_EQ(FromProto(Wrap("ConcreteSharding", proto), kMatrix, Known(2)).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(ShardingTest, ConcreteEvenAndOpaque) {
  xla::ifrt::ConcreteEvenShardingProto even;
  for (int id : {10, 11}) even.mutable_devices()->add_device_ids(id);
  for (int dim : {8, 6}) even.mutable_shape()->add_dims(dim);
  for (int dim : {4, 6}) even.mutable_shard_shape()->add_dims(dim);
  EXPECT_EQ(FromProto(Wrap("ConcreteEvenSharding", even), kMatrix, Known(2))->shard_shapes.size(), 2u);
  even.set_is_fully_replicated(true);
  EXPECT_FALSE(FromProto(Wrap("ConcreteEvenSharding", even), kMatrix, Known(2)).ok());
  xla::ifrt::OpaqueShardingProto opaque;
  opaque.mutable_devices()->add_device_ids(10);
  EXPECT_EQ(FromProto(Wrap("OpaqueSharding", opaque), kMatrix, Known(2))->kind, Kind::kSingleDevice);
  opaque.mutable_devices()->add_device_ids(11);
  EXPECT_EQ(FromProto(Wrap("OpaqueSharding", opaque), kMatrix, Known(2)).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(FromProto(Wrap("NoSuchSharding", opaque), kMatrix, Known(2)).ok());
}

TEST(ShardingTest, RoundTrip) {
  xla::OpSharding tiles = Iota({2, 1, 2}, {2, 2}, {1, 0});
  tiles.set_replicate_on_last_tile_dim(true);
  Sharding concrete;
  concrete.kind = Kind::kConcrete;
  concrete.devices = Devices(2);
  concrete.shard_shapes = {{5, 6}, {3, 6}};
  Sharding single;
  single.kind = Kind::kSingleDevice;
  single.devices = Devices(1);
  const Sharding cases[] = {*FromOpSharding(tiles, Devices(4), "device", kMatrix), concrete, single,
                            *FromOpSharding(xla::OpSharding(), Devices(4), "", kMatrix)};
  for (const Sharding& sharding : cases) {
    xla::ifrt::ShardingProto proto;
    ASSERT_TRUE(ToProto(sharding, kMatrix, &proto).ok());
    auto back = FromProto(proto, kMatrix, Known(4));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->kind, sharding.kind);
    EXPECT_EQ(back->devices, sharding.devices);
    EXPECT_EQ(back->tile_dims, sharding.tile_dims);
    EXPECT_EQ(back->tile_devices, sharding.tile_devices);
    EXPECT_EQ(back->shard_shapes, sharding.shard_shapes);
    EXPECT_EQ(back->memory_kind, sharding.memory_kind);
  }
}

}  // namespace
}  // namespace switchtower
