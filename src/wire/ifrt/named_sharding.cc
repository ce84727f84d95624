#include "wire/ifrt/named_sharding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/op_sharding.h"

namespace switchtower {
namespace {

// A whole axis, or digits of one: coordinate c on the axis counts as (c / divisor) % size.
struct AxisPart {
  int axis = 0;
  int64_t divisor = 1;
  int64_t size = 1;
};

absl::StatusOr<AxisPart> ParsePart(const xla::AxisRefProto& proto, const std::vector<int64_t>& axes) {
  if (proto.mesh_axis_index() < 0 || proto.mesh_axis_index() >= static_cast<int64_t>(axes.size())) {
    return absl::InvalidArgumentError(
        fmt::format("sharding names axis {} of a mesh of {} axes", proto.mesh_axis_index(), axes.size()));
  }
  AxisPart part;
  part.axis = static_cast<int>(proto.mesh_axis_index());
  part.size = axes[part.axis];
  if (!proto.has_sub_axis_info()) return part;
  const int64_t pre = proto.sub_axis_info().pre_size();
  const int64_t size = proto.sub_axis_info().size();
  int64_t product = 0;
  if (pre < 1 || size < 1 || __builtin_mul_overflow(pre, size, &product) || part.size % product != 0) {
    return absl::InvalidArgumentError(
        fmt::format("part ({}, {}) doesn't divide a mesh axis of {}", pre, size, part.size));
  }
  part.divisor = part.size / product;
  part.size = size;
  return part;
}

// Axis sizes, with a product of exactly `count`.
absl::StatusOr<std::vector<int64_t>> MeshAxes(const xla::MeshProto& mesh, int64_t count) {
  std::vector<int64_t> axes;
  int64_t product = 1;
  for (const auto& axis : mesh.axes()) {
    if (axis.size() < 1 || axis.size() > count || (product *= axis.size()) > count) break;
    axes.push_back(axis.size());
  }
  if (static_cast<int>(axes.size()) != mesh.axes_size() || product != count) {
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
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, MeshAxes(proto.mesh(), count));
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
      parts[d].push_back(part);
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
    std::vector<int64_t> coordinates(axes.size());
    int64_t rest = place;
    for (size_t a = axes.size(); a-- > 0;) {
      coordinates[a] = rest % axes[a];
      rest /= axes[a];
    }
    int64_t tile = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      for (const AxisPart& part : parts[d]) {
        tile = tile * part.size + coordinates[part.axis] / part.divisor % part.size;
      }
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
