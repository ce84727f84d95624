// xla.OpSharding: how an array is cut over the positions of a device list.
//
// Place:  wire/ifrt; pure.
// Errors: InvalidArgument for tiles that don't fit the devices or the rank; Unimplemented for tuples.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "types/sharding.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// The result is valid for `shape` (ValidateSharding). A sharding that cuts nothing comes back as kReplicated.
// A manual or unreduced one says nothing of a whole: kConcrete, with the array's shape for each shard.
absl::StatusOr<Sharding> FromOpSharding(const xla::OpSharding& proto, std::vector<DeviceId> devices,
                                        std::string memory_kind, const Shape& shape);

// Not for kConcrete, which has no such form.
absl::Status ToOpSharding(const Sharding& sharding, xla::OpSharding* proto);

// Positions of an iota tile assignment: 0..n-1 reshaped to `dims`, transposed by `permutation`, flattened.
// `count` is what the product of `dims` must be.
absl::StatusOr<std::vector<int64_t>> IotaPositions(const std::vector<int64_t>& dims,
                                                   const std::vector<int64_t>& permutation, int64_t count);

}  // namespace switchtower
