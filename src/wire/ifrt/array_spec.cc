#include "wire/ifrt/array_spec.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "wire/ifrt/shape.h"

namespace switchtower {

absl::StatusOr<ParsedArraySpec> FromProto(const xla::ifrt::ArraySpecProto& proto, const DeviceSet& known) {
  if (proto.version_number() != 0) {
    return absl::FailedPreconditionError(
        fmt::format("array spec is of version {}, this server knows 0", proto.version_number()));
  }
  ParsedArraySpec spec;
  ASSIGN_OR_RETURN(spec.shape, FromProto(proto.dtype(), proto.shape()));
  ASSIGN_OR_RETURN(spec.sharding, FromProto(proto.sharding(), spec.shape, known));
  if (proto.has_layout()) {
    ASSIGN_OR_RETURN(spec.layout, ParseLayoutText(proto.layout(), spec.shape.rank()));
  }
  return spec;
}

}  // namespace switchtower
