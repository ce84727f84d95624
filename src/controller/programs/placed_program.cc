#include "controller/programs/placed_program.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compiler/options.h"
#include "wire/ifrt/op_sharding.h"

namespace switchtower {
namespace {

// How a result lies on the program's devices. Where the compiler's sharding doesn't describe a cut of the whole
// (manual, unknown), only the shards' shapes are known.
Sharding ResultSharding(const ProgramValue& result, const std::vector<DeviceId>& devices) {
  Sharding sharding;
  sharding.devices = devices;
  sharding.memory_kind = result.memory_kind;
  if (devices.size() == 1) {
    sharding.kind = Sharding::Kind::kSingleDevice;
    return sharding;
  }
  xla::OpSharding proto;
  if (!result.op_sharding.empty() && proto.ParseFromString(result.op_sharding)) {
    absl::StatusOr<Sharding> parsed = FromOpSharding(proto, devices, result.memory_kind, result.shape);
    if (parsed.ok()) {
      absl::StatusOr<Shape> shard = ShardShape(*parsed, result.shape, 0);
      if (shard.ok() && *shard == result.shard_shape) return *std::move(parsed);
    }
  }
  if (result.shard_shape == result.shape) {
    sharding.kind = Sharding::Kind::kReplicated;
  } else {
    sharding.kind = Sharding::Kind::kConcrete;
    sharding.shard_shapes.assign(devices.size(), result.shard_shape.dims);
  }
  return sharding;
}

}  // namespace

absl::StatusOr<std::vector<DeviceId>> AssignedDevices(const std::string& options, size_t num_devices) {
  ASSIGN_OR_RETURN(ClientOptions client, ParseClientOptions(options));
  std::vector<int64_t> ids = client.device_ids;
  if (ids.empty()) {
    if (client.num_partitions != 1) {
      return absl::InvalidArgumentError(
          fmt::format("the compile options name no devices for {} partitions", client.num_partitions));
    }
    ids.push_back(0);
  }
  std::vector<DeviceId> devices;
  std::vector<bool> named(num_devices, false);
  for (int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(num_devices)) {
      return absl::InvalidArgumentError(
          fmt::format("the program is to run on device {}, but the session's devices are 0 to {}", id,
                      static_cast<int64_t>(num_devices) - 1));
    }
    if (named[id]) {
      return absl::InvalidArgumentError(fmt::format("the program is to run twice on device {}", id));
    }
    named[id] = true;
    devices.push_back(DeviceId{static_cast<uint64_t>(id)});
  }
  return devices;
}

absl::StatusOr<PlacedProgramPtr> PlaceProgram(std::shared_ptr<const CompiledProgram> program,
                                              std::vector<DeviceId> device_ids, DeviceType compiled_for,
                                              DeviceTable& devices, ClientCallServer* calls) {
  const ProgramInfo& info = program->info;
  if (info.num_partitions != static_cast<int32_t>(device_ids.size())) {
    return absl::InvalidArgumentError(fmt::format("{} has {} partitions, but {} devices were assigned to it", info.name,
                                                  info.num_partitions, device_ids.size()));
  }
  auto placed = std::make_shared<PlacedProgram>();
  ASSIGN_OR_RETURN(placed->devices, devices.Intern(device_ids));
  // Results that lie alike share one description: it is as large as the list of devices.
  std::map<std::tuple<std::string, std::string, std::string>, ArrayInfoPtr> alike;
  for (const ProgramValue& result : info.results) {
    placed->result_bytes.push_back(PackedBytes(result.shard_shape));
    ArrayInfoPtr& shared = alike[{result.shape.ToString() + result.shard_shape.ToString() + result.layout.ToString(),
                                  result.op_sharding, result.memory_kind}];
    if (shared != nullptr) {
      placed->results.push_back(shared);
      continue;
    }
    ArraySpec spec;
    spec.shape = result.shape;
    spec.sharding = ResultSharding(result, device_ids);
    spec.layout = result.layout;
    shared = std::make_shared<const ArrayInfo>(ArrayInfo{std::move(spec), placed->devices});
    placed->results.push_back(shared);
  }
  placed->compiled_for = std::move(compiled_for);
  placed->device_ids = std::move(device_ids);
  if (calls != nullptr && !info.host_callbacks.empty()) placed->calls = calls->Hold(info.host_callbacks);
  placed->program = std::move(program);
  return placed;
}

}  // namespace switchtower
