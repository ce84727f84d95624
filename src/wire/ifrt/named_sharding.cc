#include "wire/ifrt/named_sharding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/op_sharding.h"

namespace switchtower {
namespace {

// A whole axis, or digits of one: place p of the mesh counts as (p / divisor) % size.
struct AxisPart {
  int64_t divisor = 1;
  int64_t size = 1;
};

// `axes`: all of the mesh's.
absl::StatusOr<AxisPart> ParsePart(const xla::AxisRefProto& proto, const std::vector<AxisPart>& axes) {
  if (proto.mesh_axis_index() < 0 || proto.mesh_axis_index() >= static_cast<int64_t>(axes.size())) {
    return absl::InvalidArgumentError(
        fmt::format("sharding names axis {} of a mesh of {} axes", proto.mesh_axis_index(), axes.size()));
  }
  AxisPart part = axes[proto.mesh_axis_index()];
  if (!proto.has_sub_axis_info()) return part;
  const int64_t pre = proto.sub_axis_info().pre_size();
  const int64_t size = proto.sub_axis_info().size();
  int64_t product = 0;
  if (pre < 1 || size < 1 || __builtin_mul_overflow(pre, size, &product) || part.size % product != 0) {
    return absl::InvalidArgumentError(
        fmt::format("part ({}, {}) doesn't divide a mesh axis of {}", pre, size, part.size));
  }
  part.divisor *= part.size / product;
  part.size = size;
  return part;
}

// The axes of places in row-major order, with a product of exactly `count`.
absl::StatusOr<std::vector<AxisPart>> MeshAxes(const xla::MeshProto& mesh, int64_t count) {
  std::vector<AxisPart> axes(mesh.axes_size());
  int64_t product = 1;
  for (int a = mesh.axes_size(); a-- > 0;) {
    const int64_t size = mesh.axes(a).size();
    axes[a] = {product, size};
    if (size < 1 || size > count || (product *= size) > count) product = 0;
    if (product == 0) break;
  }
  if (product != count) {
    return absl::InvalidArgumentError(fmt::format("mesh doesn't have the sharding's {} devices", count));
  }
  return axes;
}

// Position in the device list of each place in the mesh, in row-major order of the axes.
absl::StatusOr<std::vector<int64_t>> MeshPositions(const xla::MeshProto& mesh, int64_t count) {
  std::vector<int64_t> positions(mesh.device_ids().begin(), mesh.device_ids().end());
  if (!positions.empty()) {
    if (static_cast<int64_t>(positions.size()) != count) {
      return absl::InvalidArgumentError(
          fmt::format("mesh lists {} devices, the sharding has {}", positions.size(), count));
    }
    return positions;  // a permutation or not: ValidateSharding tells
  }
  if (mesh.has_iota_transform()) {
    const auto& iota = mesh.iota_transform();
    return IotaPositions({iota.reshape_dims().begin(), iota.reshape_dims().end()},
                         {iota.transpose_perm().begin(), iota.transpose_perm().end()}, count);
  }
  positions.resize(count);
  for (int64_t i = 0; i < count; ++i) positions[i] = i;
  return positions;
}

}  // namespace

absl::StatusOr<Sharding> FromNamedSharding(const xla::NamedShardingProto& proto, Sharding target, const Shape& shape) {
  const int64_t count = target.num_shards();
  if (proto.mesh().axes_size() == 0) {  // the empty mesh: replicated
    target.kind = Sharding::Kind::kReplicated;
    return target;
  }
  ASSIGN_OR_RETURN(const std::vector<AxisPart> axes, MeshAxes(proto.mesh(), count));
  ASSIGN_OR_RETURN(const std::vector<int64_t> positions, MeshPositions(proto.mesh(), count));
  if (proto.dim_shardings_size() > shape.rank()) {
    return absl::InvalidArgumentError(
        fmt::format("sharding cuts {} dimensions, the array has {}", proto.dim_shardings_size(), shape.rank()));
  }
  std::vector<std::vector<AxisPart>> parts(shape.rank());
  std::vector<int64_t> tile_dims(shape.rank(), 1);
  int64_t tiles = 1;
  for (int d = 0; d < proto.dim_shardings_size(); ++d) {
    for (const auto& axis : proto.dim_shardings(d).axes()) {
      ASSIGN_OR_RETURN(AxisPart part, ParsePart(axis, axes));
      tile_dims[d] *= part.size;
      tiles *= part.size;
      if (tiles > count) return absl::InvalidArgumentError("sharding uses a mesh axis twice");
      if (part.size > 1) parts[d].push_back(part);
    }
  }
  const bool whole = proto.manual_axes_size() == 0 && proto.unreduced_axes_size() == 0;
  if (tiles == 1 && whole) {
    target.kind = Sharding::Kind::kReplicated;
    return target;
  }
  // Sorts the places of the mesh by tile: those of one tile are a replication group, in mesh order.
  if (count % tiles != 0) return absl::InvalidArgumentError("tiles don't divide the mesh evenly");
  const int64_t group = count / tiles;
  std::vector<int64_t> members(tiles, 0);
  std::vector<int64_t> tile_devices(count, -1);
  for (int64_t place = 0; place < count; ++place) {
    int64_t tile = 0;
    for (const auto& cuts : parts) {
      for (const AxisPart& part : cuts) tile = tile * part.size + place / part.divisor % part.size;
    }
    if (members[tile] == group) return absl::InvalidArgumentError("sharding uses a mesh axis twice");
    tile_devices[tile * group + members[tile]++] = positions[place];
  }
  target.kind = Sharding::Kind::kTiled;
  target.tile_dims = std::move(tile_dims);
  target.tile_devices = std::move(tile_devices);
  if (group > 1) {
    target.tile_dims.push_back(group);
    target.replicated_trailing_dims = 1;
  }
  RETURN_IF_ERROR(ValidateSharding(target, shape));
  if (whole) return target;
  Sharding concrete;  // members of a manual group differ: only the shapes are known
  concrete.kind = Sharding::Kind::kConcrete;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Shape shard, ShardShape(target, shape, i));
    concrete.shard_shapes.push_back(std::move(shard.dims));
  }
  concrete.devices = std::move(target.devices);
  concrete.memory_kind = std::move(target.memory_kind);
  return concrete;
}

}  // namespace switchtower
