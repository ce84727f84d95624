#include "wire/ifrt/array_spec.h"

#include "base/status_macros.h"
#include "wire/ifrt/message_version.h"
#include "wire/ifrt/shape.h"

namespace switchtower {

absl::StatusOr<ParsedArraySpec> FromProto(const xla::ifrt::ArraySpecProto& proto, const DeviceSet& known) {
  RETURN_IF_ERROR(CheckMessageVersion(proto, "array spec"));
  ParsedArraySpec spec;
  ASSIGN_OR_RETURN(spec.shape, FromProto(proto.dtype(), proto.shape()));
  ASSIGN_OR_RETURN(spec.sharding, FromProto(proto.sharding(), spec.shape, known));
  if (proto.has_layout()) {
    ASSIGN_OR_RETURN(spec.layout, ParseLayoutText(proto.layout(), spec.shape.rank()));
  }
  return spec;
}

}  // namespace switchtower
