// xla.ifrt.ShardingProto, in any of its serialised forms.
//
// Errors: InvalidArgument for what doesn't parse or fit; Unimplemented, with the reason, for forms without a
//         meaning here.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "types/sharding.h"
#include "xla/python/ifrt/sharding.pb.h"

namespace switchtower {

// The devices of a session: no sharding may name others.
using DeviceSet = absl::flat_hash_set<DeviceId>;

// The result is valid for `shape` and names each of its devices once.
absl::StatusOr<Sharding> FromProto(const xla::ifrt::ShardingProto& proto, const Shape& shape, const DeviceSet& known);

// Ids as the client wrote them; each must be known and come once.
absl::StatusOr<std::vector<DeviceId>> ParseDevices(const int32_t* ids, size_t count, const DeviceSet& known);

// `shape`: of the whole array.
absl::Status ToProto(const Sharding& sharding, const Shape& shape, xla::ifrt::ShardingProto* proto);

}  // namespace switchtower
