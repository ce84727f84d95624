// Plug-in programs: small JSON requests that travel as programs, to be compiled and executed.
//
// Place:  wire/ifrt; pure.
// Errors: InvalidArgument for what isn't such a program ("Bad PluginProgram", which clients look for); Unimplemented,
//         with its name, for a kind that isn't served.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "types/sharding.h"
#include "wire/ifrt/sharding.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// A sharding that isn't bound to a shape yet.
struct PlacedSharding {
  std::vector<DeviceId> devices;
  xla::OpSharding op_sharding;
  std::string memory_kind;
};

// "reshardRequest": argument i, which lies as `from[i]`, becomes result i, which lies as `to[i]`.
struct ReshardProgram {
  bool donate = false;
  std::vector<PlacedSharding> from, to;
};

// `data`: a serialised xla::ifrt::PluginProgram. The devices are among `known`; there is at least one argument.
absl::StatusOr<ReshardProgram> ParsePluginProgram(const std::string& data, const DeviceSet& known);

// The sharding for an array of `shape`.
absl::StatusOr<Sharding> ToSharding(const PlacedSharding& placed, const Shape& shape);

}  // namespace switchtower
