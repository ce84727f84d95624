#include "wire/ifrt/op_sharding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/named_sharding.h"

namespace switchtower {
namespace {

// An array's dimensions and as many groups behind them. Each place of a device is worked out from all tile dimensions,
// and dimensions of 1 would fit in any number.
constexpr size_t kTileDimsMax = 2 * kMaxRank;

// The product of `dims`, if all are positive and it is at most `limit`.
absl::StatusOr<int64_t> BoundedProduct(const std::vector<int64_t>& dims, int64_t limit) {
  if (dims.size() > kTileDimsMax) {
    return absl::InvalidArgumentError(
        fmt::format("sharding has {} tile dimensions, at most {} are supported", dims.size(), kTileDimsMax));
  }
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 1 || dim > limit || (product *= dim) > limit) {
      return absl::InvalidArgumentError(
          fmt::format("sharding has more tiles than its {} devices, or a tile count below 1", limit));
    }
  }
  return product;
}

// Every shard has the array's shape, and they may differ.
Sharding WholeShards(Sharding sharding, const Shape& shape) {
  sharding.kind = Sharding::Kind::kConcrete;
  sharding.shard_shapes.assign(sharding.devices.size(), shape.dims);
  return sharding;
}

absl::StatusOr<Sharding> Tiled(const xla::OpSharding& proto, Sharding sharding, const Shape& shape) {
  const int64_t count = sharding.num_shards();
  sharding.kind = Sharding::Kind::kTiled;
  sharding.tile_dims.assign(proto.tile_assignment_dimensions().begin(), proto.tile_assignment_dimensions().end());
  sharding.replicated_trailing_dims = proto.last_tile_dims_size() + (proto.replicate_on_last_tile_dim() ? 1 : 0);
  if (proto.replicate_on_last_tile_dim() && proto.last_tile_dims_size() > 0) {
    return absl::InvalidArgumentError("sharding has both spellings of trailing replication");
  }
  ASSIGN_OR_RETURN(const int64_t tiles, BoundedProduct(sharding.tile_dims, count));
  if (tiles != count) {
    return absl::InvalidArgumentError(fmt::format("sharding has {} tiles for {} devices", tiles, count));
  }
  if (proto.iota_reshape_dims_size() > 0) {
    ASSIGN_OR_RETURN(sharding.tile_devices,
                     IotaPositions({proto.iota_reshape_dims().begin(), proto.iota_reshape_dims().end()},
                                   {proto.iota_transpose_perm().begin(), proto.iota_transpose_perm().end()}, count));
  } else {
    sharding.tile_devices.assign(proto.tile_assignment_devices().begin(), proto.tile_assignment_devices().end());
  }
  if (sharding.replicated_trailing_dims > static_cast<int>(sharding.tile_dims.size())) {
    return absl::InvalidArgumentError("sharding has more trailing groups than tile dimensions");
  }
  RETURN_IF_ERROR(ValidateSharding(sharding, shape));
  const bool manual = std::any_of(proto.last_tile_dims().begin(), proto.last_tile_dims().end(), [](int type) {
    return type == xla::OpSharding::MANUAL || type == xla::OpSharding::UNREDUCED;
  });
  const bool cut = std::any_of(sharding.tile_dims.begin(), sharding.tile_dims.end() - sharding.replicated_trailing_dims,
                               [](int64_t dim) { return dim > 1; });
  if (cut && !manual) return sharding;
  if (!manual) {
    sharding.kind = Sharding::Kind::kReplicated;
    sharding.tile_dims.clear();
    sharding.tile_devices.clear();
    sharding.replicated_trailing_dims = 0;
    return sharding;
  }
  // Members of a manual group hold different values of one tile: only the shapes are known.
  Sharding concrete;
  concrete.kind = Sharding::Kind::kConcrete;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Shape shard, ShardShape(sharding, shape, i));
    concrete.shard_shapes.push_back(std::move(shard.dims));
  }
  concrete.devices = std::move(sharding.devices);
  concrete.memory_kind = std::move(sharding.memory_kind);
  return concrete;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> IotaPositions(const std::vector<int64_t>& dims,
                                                   const std::vector<int64_t>& permutation, int64_t count) {
  ASSIGN_OR_RETURN(const int64_t product, BoundedProduct(dims, count));
  const size_t rank = dims.size();
  if (product != count || permutation.size() != rank) {
    return absl::InvalidArgumentError(
        fmt::format("iota tile assignment of {} positions doesn't fit {} devices", product, count));
  }
  std::vector<int64_t> strides(rank);
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  std::vector<bool> seen(rank, false);
  std::vector<int64_t> sizes(rank), steps(rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t from = permutation[d];
    if (from < 0 || from >= static_cast<int64_t>(rank) || seen[from]) {
      return absl::InvalidArgumentError("iota tile assignment isn't a permutation");
    }
    seen[from] = true;
    sizes[d] = dims[from];
    steps[d] = strides[from];
  }
  std::vector<int64_t> positions;
  positions.reserve(count);
  std::vector<int64_t> index(rank, 0);
  int64_t position = 0;
  while (static_cast<int64_t>(positions.size()) < count) {
    positions.push_back(position);
    for (size_t d = rank; d-- > 0;) {
      position += steps[d];
      if (++index[d] < sizes[d]) break;
      position -= steps[d] * sizes[d];
      index[d] = 0;
    }
  }
  return positions;
}

absl::StatusOr<Sharding> FromOpSharding(const xla::OpSharding& proto, std::vector<DeviceId> devices,
                                        std::string memory_kind, const Shape& shape) {
  if (devices.empty()) return absl::InvalidArgumentError("sharding names no devices");
  Sharding sharding;
  sharding.devices = std::move(devices);
  sharding.memory_kind = std::move(memory_kind);
  if (proto.has_named_sharding()) {
    return FromNamedSharding(proto.named_sharding(), std::move(sharding), shape);
  }
  switch (proto.type()) {
    case xla::OpSharding::REPLICATED:
      sharding.kind = Sharding::Kind::kReplicated;
      return sharding;
    case xla::OpSharding::MAXIMAL:
      if (sharding.num_shards() == 1) return sharding;
      sharding.kind = Sharding::Kind::kMaximal;
      sharding.tile_devices.assign(proto.tile_assignment_devices().begin(), proto.tile_assignment_devices().end());
      RETURN_IF_ERROR(ValidateSharding(sharding, shape));
      return sharding;
    case xla::OpSharding::MANUAL:
    case xla::OpSharding::UNREDUCED:
      return sharding.num_shards() == 1 ? sharding : WholeShards(std::move(sharding), shape);
    case xla::OpSharding::OTHER:
      return Tiled(proto, std::move(sharding), shape);
    case xla::OpSharding::TUPLE:
      return absl::UnimplementedError("tuple shardings aren't supported for arrays");
    default:
      return absl::InvalidArgumentError(fmt::format("unknown sharding type {}", static_cast<int>(proto.type())));
  }
}

absl::Status ToOpSharding(const Sharding& sharding, xla::OpSharding* proto) {
  switch (sharding.kind) {
    case Sharding::Kind::kSingleDevice:
    case Sharding::Kind::kReplicated:
      proto->set_type(xla::OpSharding::REPLICATED);
      return absl::OkStatus();
    case Sharding::Kind::kMaximal:
      proto->set_type(xla::OpSharding::MAXIMAL);
      proto->add_tile_assignment_dimensions(1);
      proto->add_tile_assignment_devices(sharding.tile_devices[0]);
      return absl::OkStatus();
    case Sharding::Kind::kConcrete:
      return absl::InvalidArgumentError("a concrete sharding has no HLO form");
    case Sharding::Kind::kTiled:
      break;
  }
  proto->set_type(xla::OpSharding::OTHER);
  proto->mutable_tile_assignment_dimensions()->Assign(sharding.tile_dims.begin(), sharding.tile_dims.end());
  proto->mutable_tile_assignment_devices()->Assign(sharding.tile_devices.begin(), sharding.tile_devices.end());
  if (sharding.replicated_trailing_dims == 1) {
    proto->set_replicate_on_last_tile_dim(true);
  } else {
    for (int i = 0; i < sharding.replicated_trailing_dims; ++i) {
      proto->add_last_tile_dims(xla::OpSharding::REPLICATED);
    }
  }
  return absl::OkStatus();
}

}  // namespace switchtower
