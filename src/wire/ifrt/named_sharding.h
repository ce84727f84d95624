// The mesh-and-axes form of xla.OpSharding, as newer clients write it.
#pragma once

#include "absl/status/statusor.h"
#include "types/sharding.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// `target` brings devices and memory kind. The mesh must have as many devices as `target`.
absl::StatusOr<Sharding> FromNamedSharding(const xla::NamedShardingProto& proto, Sharding target, const Shape& shape);

}  // namespace switchtower
