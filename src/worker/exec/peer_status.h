// An absl::Status as the body of a message between workers, payloads included.
//
// Errors:   decoding gives DataLoss for any bytes that aren't an error status.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace switchtower {

std::string EncodePeerStatus(const absl::Status& status);
// Never OK: either what was sent or that it couldn't be read.
absl::Status DecodePeerStatus(std::string_view body);

}  // namespace switchtower
