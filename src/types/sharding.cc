#include "types/sharding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

// The index of `position`'s tile in row-major order of tile_dims.
absl::StatusOr<int64_t> TileOf(const Sharding& sharding, int position) {
  auto it = std::find(sharding.tile_devices.begin(), sharding.tile_devices.end(), position);
  if (it == sharding.tile_devices.end()) {
    return absl::InvalidArgumentError(fmt::format("no tile is assigned to shard {}", position));
  }
  return it - sharding.tile_devices.begin();
}

absl::StatusOr<Box> TileBox(const Sharding& sharding, const Shape& shape, int position) {
  ASSIGN_OR_RETURN(int64_t tile, TileOf(sharding, position));
  std::vector<int64_t> coordinates(sharding.tile_dims.size());
  for (int d = static_cast<int>(coordinates.size()) - 1; d >= 0; --d) {
    coordinates[d] = tile % sharding.tile_dims[d];
    tile /= sharding.tile_dims[d];
  }
  Box box;
  for (int d = 0; d < shape.rank(); ++d) {
    // Rounded up; the sum of the usual way may not fit.
    const int64_t block = shape.dims[d] / sharding.tile_dims[d] + (shape.dims[d] % sharding.tile_dims[d] != 0 ? 1 : 0);
    const int64_t start = std::min(shape.dims[d], block * coordinates[d]);
    box.start.push_back(start);
    box.size.push_back(std::min(block, shape.dims[d] - start));
  }
  return box;
}

}  // namespace

absl::Status ValidateSharding(const Sharding& sharding, const Shape& shape) {
  const int64_t count = sharding.num_shards();
  if (count == 0) return absl::InvalidArgumentError("sharding names no devices");
  switch (sharding.kind) {
    case Sharding::Kind::kSingleDevice:
      if (count != 1) {
        return absl::InvalidArgumentError(fmt::format("single-device sharding names {} devices", count));
      }
      return absl::OkStatus();
    case Sharding::Kind::kReplicated:
      return absl::OkStatus();
    case Sharding::Kind::kMaximal:
      if (sharding.tile_devices.size() != 1 || sharding.tile_devices[0] < 0 || sharding.tile_devices[0] >= count) {
        return absl::InvalidArgumentError("maximal sharding names a device outside its list");
      }
      return absl::OkStatus();
    case Sharding::Kind::kConcrete:
      if (static_cast<int64_t>(sharding.shard_shapes.size()) != count) {
        return absl::InvalidArgumentError(
            fmt::format("sharding has {} shard shapes for {} devices", sharding.shard_shapes.size(), count));
      }
      return absl::OkStatus();
    case Sharding::Kind::kTiled:
      break;
  }
  const int64_t data_dims = static_cast<int64_t>(sharding.tile_dims.size()) - sharding.replicated_trailing_dims;
  if (data_dims != shape.rank()) {
    return absl::InvalidArgumentError(
        fmt::format("sharding cuts {} dimensions, the array has {}", data_dims, shape.rank()));
  }
  int64_t tiles = 1;
  for (int64_t dim : sharding.tile_dims) {
    if (dim < 1 || dim > count) {
      return absl::InvalidArgumentError(fmt::format("tile count {} is out of range", dim));
    }
    tiles *= dim;
    if (tiles > count) break;
  }
  std::vector<bool> used(count, false);
  bool permutation = tiles == count && static_cast<int64_t>(sharding.tile_devices.size()) == count;
  for (int64_t position : sharding.tile_devices) {
    if (position < 0 || position >= count || used[position]) {
      permutation = false;
      break;
    }
    used[position] = true;
  }
  if (!permutation) {
    return absl::InvalidArgumentError(
        fmt::format("tile assignment isn't a permutation of the sharding's {} devices", count));
  }
  return absl::OkStatus();
}

absl::StatusOr<Box> ShardBox(const Sharding& sharding, const Shape& shape, int position) {
  if (position < 0 || position >= sharding.num_shards()) {
    return absl::InvalidArgumentError(
        fmt::format("shard {} of an array with {} shards", position, sharding.num_shards()));
  }
  switch (sharding.kind) {
    case Sharding::Kind::kSingleDevice:
    case Sharding::Kind::kReplicated:
      break;
    case Sharding::Kind::kMaximal:
      if (position != sharding.tile_devices[0]) {
        return Box{std::vector<int64_t>(shape.rank(), 0), std::vector<int64_t>(shape.rank(), 0)};
      }
      break;
    case Sharding::Kind::kConcrete:
      return absl::FailedPreconditionError("a concrete sharding doesn't say where its shards lie");
    case Sharding::Kind::kTiled:
      return TileBox(sharding, shape, position);
  }
  return Box{std::vector<int64_t>(shape.rank(), 0), shape.dims};
}

absl::StatusOr<Shape> ShardShape(const Sharding& sharding, const Shape& shape, int position) {
  if (sharding.kind == Sharding::Kind::kConcrete) {
    if (position < 0 || position >= static_cast<int>(sharding.shard_shapes.size())) {
      return absl::InvalidArgumentError(fmt::format("shard {} is out of range", position));
    }
    return Shape{shape.dtype, sharding.shard_shapes[position]};
  }
  ASSIGN_OR_RETURN(Box box, ShardBox(sharding, shape, position));
  return Shape{shape.dtype, std::move(box.size)};
}

}  // namespace switchtower
