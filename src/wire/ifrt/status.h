// absl::Status <-> tensorflow.StatusProto, with payloads.
#pragma once

#include "absl/status/status.h"
#include "xla/tsl/protobuf/status.pb.h"

namespace switchtower {

void ToProto(const absl::Status& status, tensorflow::StatusProto* proto);
// A code that isn't a canonical one becomes UNKNOWN.
absl::Status FromProto(const tensorflow::StatusProto& proto);

}  // namespace switchtower
