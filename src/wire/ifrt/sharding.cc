#include "wire/ifrt/sharding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/message_version.h"
#include "wire/ifrt/op_sharding.h"
#include "wire/ifrt/shape.h"
#include "xla/python/ifrt/sharding_serdes.pb.h"
#include "xla/python/pjrt_ifrt/xla_sharding.pb.h"

namespace switchtower {
namespace {

constexpr char kHlo[] = "xla::ifrt::HloSharding";
constexpr char kSingleDevice[] = "xla::ifrt::SingleDeviceSharding";
constexpr char kOpaque[] = "xla::ifrt::OpaqueSharding";
constexpr char kConcrete[] = "xla::ifrt::ConcreteSharding";
constexpr char kConcreteEven[] = "xla::ifrt::ConcreteEvenSharding";

template <typename Proto>
absl::StatusOr<Proto> Parse(const std::string& data) {
  Proto proto;
  if (!proto.ParseFromString(data)) return absl::InvalidArgumentError("sharding doesn't parse");
  RETURN_IF_ERROR(CheckMessageVersion(proto, "sharding"));
  return proto;
}

absl::StatusOr<std::vector<DeviceId>> Devices(const xla::ifrt::DeviceListProto& proto, const DeviceSet& known) {
  RETURN_IF_ERROR(CheckMessageVersion(proto, "device list"));
  return ParseDevices(proto.device_ids().data(), proto.device_ids_size(), known);
}

template <typename Proto>
absl::StatusOr<Sharding> OnDevices(const Proto& proto, Sharding::Kind kind, const DeviceSet& known) {
  Sharding sharding;
  sharding.kind = kind;
  ASSIGN_OR_RETURN(sharding.devices, Devices(proto.devices(), known));
  sharding.memory_kind = proto.memory_kind();
  return sharding;
}

absl::Status CheckWhole(const xla::ifrt::ShapeProto& proto, const Shape& shape) {
  RETURN_IF_ERROR(CheckMessageVersion(proto, "shape"));
  if (std::equal(proto.dims().begin(), proto.dims().end(), shape.dims.begin(), shape.dims.end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("sharding is for another shape than the array's {}", shape.ToString()));
}

absl::StatusOr<Sharding> FromConcrete(const xla::ifrt::ConcreteShardingProto& proto, const Shape& shape,
                                      const DeviceSet& known) {
  if (proto.has_dynamic_shape() || proto.shard_dynamic_shapes_size() > 0) {
    return absl::UnimplementedError("shardings of dynamic shapes aren't supported");
  }
  RETURN_IF_ERROR(CheckWhole(proto.shape(), shape));
  ASSIGN_OR_RETURN(Sharding sharding, OnDevices(proto, Sharding::Kind::kConcrete, known));
  for (const auto& shard : proto.shard_shapes()) {
    RETURN_IF_ERROR(CheckMessageVersion(shard, "shape"));
    sharding.shard_shapes.emplace_back(shard.dims().begin(), shard.dims().end());
  }
  return sharding;
}

absl::StatusOr<Sharding> FromConcreteEven(const xla::ifrt::ConcreteEvenShardingProto& proto, const Shape& shape,
                                          const DeviceSet& known) {
  RETURN_IF_ERROR(CheckWhole(proto.shape(), shape));
  if (proto.is_fully_replicated()) {
    RETURN_IF_ERROR(CheckWhole(proto.shard_shape(), shape));
    return OnDevices(proto, Sharding::Kind::kReplicated, known);
  }
  RETURN_IF_ERROR(CheckMessageVersion(proto.shard_shape(), "shape"));
  ASSIGN_OR_RETURN(Sharding sharding, OnDevices(proto, Sharding::Kind::kConcrete, known));
  const std::vector<int64_t> shard(proto.shard_shape().dims().begin(), proto.shard_shape().dims().end());
  sharding.shard_shapes.assign(sharding.devices.size(), shard);
  return sharding;
}

absl::StatusOr<Sharding> FromSerialized(const xla::ifrt::Serialized& serialized, const Shape& shape,
                                        const DeviceSet& known) {
  const std::string& type = serialized.type_name();
  if (type == kHlo) {
    ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::HloShardingProto>(serialized.data()));
    ASSIGN_OR_RETURN(auto devices, Devices(proto.devices(), known));
    return FromOpSharding(proto.xla_op_sharding(), std::move(devices), proto.memory_kind(), shape);
  }
  if (type == kSingleDevice) {
    ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::SingleDeviceShardingProto>(serialized.data()));
    Sharding sharding;
    sharding.kind = Sharding::Kind::kSingleDevice;
    const int32_t id = proto.device_id();
    ASSIGN_OR_RETURN(sharding.devices, ParseDevices(&id, 1, known));
    sharding.memory_kind = proto.memory_kind();
    return sharding;
  }
  if (type == kConcrete) {
    ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::ConcreteShardingProto>(serialized.data()));
    return FromConcrete(proto, shape, known);
  }
  if (type == kConcreteEven) {
    ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::ConcreteEvenShardingProto>(serialized.data()));
    return FromConcreteEven(proto, shape, known);
  }
  if (type == kOpaque) {
    ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::OpaqueShardingProto>(serialized.data()));
    ASSIGN_OR_RETURN(Sharding sharding, OnDevices(proto, Sharding::Kind::kSingleDevice, known));
    if (sharding.num_shards() == 1) return sharding;
    return absl::UnimplementedError(
        "an opaque sharding doesn't say what each of its devices holds; only those of one device are supported");
  }
  if (type == "xla::ifrt::ShardingParamSharding") {
    return absl::UnimplementedError(
        "ShardingParam shardings aren't supported; clients of serialisation "
        "version 2 and later send HLO shardings instead");
  }
  return absl::InvalidArgumentError(fmt::format("unknown sharding type \"{}\"", type));
}

template <typename Proto>
void FillDevices(const Sharding& sharding, Proto* proto) {
  for (DeviceId device : sharding.devices) {
    proto->mutable_devices()->add_device_ids(static_cast<int32_t>(device.value));
  }
  if (!sharding.memory_kind.empty()) proto->set_memory_kind(sharding.memory_kind);
}

}  // namespace

absl::StatusOr<std::vector<DeviceId>> ParseDevices(const int32_t* ids, size_t count, const DeviceSet& known) {
  if (count > known.size()) {
    return absl::InvalidArgumentError(fmt::format("{} devices are named, the session has {}", count, known.size()));
  }
  std::vector<DeviceId> devices;
  devices.reserve(count);
  DeviceSet seen;
  for (size_t i = 0; i < count; ++i) {
    const DeviceId device{static_cast<uint64_t>(static_cast<int64_t>(ids[i]))};
    if (!known.contains(device)) return absl::InvalidArgumentError(fmt::format("there is no device {}", ids[i]));
    if (!seen.insert(device).second) {
      return absl::InvalidArgumentError(fmt::format("device {} is named twice", ids[i]));
    }
    devices.push_back(device);
  }
  return devices;
}

absl::StatusOr<Sharding> FromProto(const xla::ifrt::ShardingProto& proto, const Shape& shape, const DeviceSet& known) {
  ASSIGN_OR_RETURN(Sharding sharding, FromSerialized(proto.serialized_sharding(), shape, known));
  RETURN_IF_ERROR(ValidateSharding(sharding, shape));
  for (const std::vector<int64_t>& dims : sharding.shard_shapes) {
    RETURN_IF_ERROR(ValidateShape(Shape{shape.dtype, dims}));
  }
  return sharding;
}

absl::Status ToProto(const Sharding& sharding, const Shape& shape, xla::ifrt::ShardingProto* proto) {
  auto* serialized = proto->mutable_serialized_sharding();
  if (sharding.kind == Sharding::Kind::kSingleDevice) {
    xla::ifrt::SingleDeviceShardingProto single;
    single.set_device_id(static_cast<int32_t>(sharding.devices[0].value));
    if (!sharding.memory_kind.empty()) single.set_memory_kind(sharding.memory_kind);
    serialized->set_type_name(kSingleDevice);
    serialized->set_data(single.SerializeAsString());
    return absl::OkStatus();
  }
  if (sharding.kind == Sharding::Kind::kConcrete) {
    xla::ifrt::ConcreteShardingProto concrete;
    FillDevices(sharding, &concrete);
    ToProto(shape.dims, concrete.mutable_shape());
    for (const auto& dims : sharding.shard_shapes) ToProto(dims, concrete.add_shard_shapes());
    serialized->set_type_name(kConcrete);
    serialized->set_data(concrete.SerializeAsString());
    return absl::OkStatus();
  }
  xla::ifrt::HloShardingProto hlo;
  FillDevices(sharding, &hlo);
  RETURN_IF_ERROR(ToOpSharding(sharding, hlo.mutable_xla_op_sharding()));
  serialized->set_type_name(kHlo);
  serialized->set_data(hlo.SerializeAsString());
  return absl::OkStatus();
}

}  // namespace switchtower
