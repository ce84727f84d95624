#include "hlo/shard_counts.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/device_order.h"

namespace switchtower {
namespace {

absl::Status Bad(std::string what) {
  return absl::InvalidArgumentError(absl::StrCat("a sharding of the program is wrong: ", what));
}

using AxisRefs = google::protobuf::RepeatedPtrField<xla::AxisRefProto>;

// The product of the axes' sizes; they join `axes`.
absl::StatusOr<int64_t> TakeAxes(const xla::NamedShardingProto& named, const AxisRefs& refs, int num_partitions,
                                 std::vector<xla::AxisRefProto>& axes) {
  int64_t count = 1;
  for (const auto& axis : refs) {
    ASSIGN_OR_RETURN(const int64_t size, AxisRefSize(named.mesh(), axis));
    if (size > num_partitions / count) return Bad("more tiles than partitions");
    count *= size;
    axes.push_back(axis);
  }
  return count;
}

absl::Status SetTiles(const xla::NamedShardingProto& named, int num_partitions, xla::OpSharding& tiles) {
  std::vector<xla::AxisRefProto> axes;
  for (const auto& dimension : named.dim_shardings()) {
    ASSIGN_OR_RETURN(const int64_t count, TakeAxes(named, dimension.axes(), num_partitions, axes));
    tiles.add_tile_assignment_dimensions(count);
  }
  // Axes that cut no dimension, and yet the devices along them differ.
  for (const auto& [refs, type] : {std::pair(&named.manual_axes(), xla::OpSharding::MANUAL),
                                   std::pair(&named.unreduced_axes(), xla::OpSharding::UNREDUCED)}) {
    ASSIGN_OR_RETURN(const int64_t count, TakeAxes(named, *refs, num_partitions, axes));
    if (count == 1) continue;
    tiles.add_tile_assignment_dimensions(count);
    tiles.add_last_tile_dims(type);
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
    // Beside other groups, replication is one of them.
    if (tiles.last_tile_dims_size() > 0) {
      tiles.add_last_tile_dims(xla::OpSharding::REPLICATED);
    } else {
      tiles.set_replicate_on_last_tile_dim(true);
    }
  }
  tiles.mutable_tile_assignment_devices()->Add(order.devices.begin(), order.devices.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<xla::OpSharding> AsTileSharding(const xla::OpSharding& sharding, int num_partitions) {
  if (!sharding.has_named_sharding()) return sharding;
  const xla::NamedShardingProto& named = sharding.named_sharding();
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
