// How often an OpSharding cuts each dimension of an array.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// One count for each of `rank` dimensions, each at least 1 and their product at most num_partitions.
// InvalidArgument if the sharding contradicts itself or doesn't fit.
absl::StatusOr<std::vector<int64_t>> ShardCounts(const xla::OpSharding& sharding, int rank, int num_partitions);

// The sharding in the tile form that every client reads: a named sharding written out, others as they are.
absl::StatusOr<xla::OpSharding> AsTileSharding(const xla::OpSharding& sharding, int num_partitions);

}  // namespace switchtower
