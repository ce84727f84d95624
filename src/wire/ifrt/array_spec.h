// What an array is, as xla.ifrt.ArraySpecProto.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "types/shape.h"
#include "types/sharding.h"
#include "wire/ifrt/sharding.h"
#include "xla/python/ifrt/array_spec.pb.h"

namespace switchtower {

struct ParsedArraySpec {
  Shape shape;  // global
  Sharding sharding;
  std::optional<Layout> layout;
};

// Shape, sharding and layout are valid together.
absl::StatusOr<ParsedArraySpec> FromProto(const xla::ifrt::ArraySpecProto& proto, const DeviceSet& known);

}  // namespace switchtower
