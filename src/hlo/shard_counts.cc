#include "hlo/shard_counts.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/device_order.h"

namespace switchtower {
namespace {

absl::Status Bad(std::string what) {
  return absl::InvalidArgumentError(absl::StrCat("a sharding of the program is wrong: ", what));
}

absl::Status SetTiles(const xla::NamedShardingProto& named, int num_partitions, xla::OpSharding& tiles) {
  std::vector<xla::AxisRefProto> axes;
  for (const auto& dimension : named.dim_shardings()) {
    int64_t count = 1;
    for (const auto& axis : dimension.axes()) {
      ASSIGN_OR_RETURN(const int64_t size, AxisRefSize(named.mesh(), axis));
      if (size > num_partitions / count) return Bad("more tiles than partitions");
      count *= size;
      axes.push_back(axis);
    }
    tiles.add_tile_assignment_dimensions(count);
  }
  ASSIGN_OR_RETURN(const MeshOrder order, OrderMesh(named.mesh(), axes, NamedAxes::kFirst, num_partitions));
  if (order.named_size == 1) {
    tiles.clear_tile_assignment_dimensions();
    tiles.set_type(xla::OpSharding::REPLICATED);
    return absl::OkStatus();
  }
  tiles.set_type(xla::OpSharding::OTHER);
  const int64_t replicas = static_cast<int64_t>(order.devices.size()) / order.named_size;
  if (replicas > 1) {
    tiles.add_tile_assignment_dimensions(replicas);
    tiles.set_replicate_on_last_tile_dim(true);
  }
  tiles.mutable_tile_assignment_devices()->Add(order.devices.begin(), order.devices.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<xla::OpSharding> AsTileSharding(const xla::OpSharding& sharding, int num_partitions) {
  if (!sharding.has_named_sharding()) return sharding;
  const xla::NamedShardingProto& named = sharding.named_sharding();
  if (named.manual_axes_size() > 0 || named.unreduced_axes_size() > 0) {
    return absl::UnimplementedError("a parameter or result with manual or unreduced axes");
  }
  xla::OpSharding tiles;
  RETURN_IF_ERROR(SetTiles(named, num_partitions, tiles));
  return tiles;
}

absl::StatusOr<std::vector<int64_t>> ShardCounts(const xla::OpSharding& sharding, int rank, int num_partitions) {
  std::vector<int64_t> counts(rank, 1);
  ASSIGN_OR_RETURN(const xla::OpSharding tiles, AsTileSharding(sharding, num_partitions));
  if (tiles.type() == xla::OpSharding::TUPLE) return Bad("a tuple where an array is");
  if (tiles.type() != xla::OpSharding::OTHER) return counts;
  if (tiles.tile_assignment_dimensions_size() < rank) return Bad("fewer tile dimensions than array dimensions");
  int64_t product = 1;
  for (int i = 0; i < tiles.tile_assignment_dimensions_size(); ++i) {
    const int64_t count = tiles.tile_assignment_dimensions(i);
    if (count < 1 || count > num_partitions / product) return Bad("more tiles than partitions");
    product *= count;
    if (i < rank) counts[i] = count;
  }
  return counts;
}

}  // namespace switchtower
