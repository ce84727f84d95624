// The version that each serialised message of IFRT carries by itself.
//
// Place:  wire/ifrt; pure.
// Errors: FailedPrecondition for a later version than the only one that there is for these messages at the
//         serialisation versions that we speak (versions.h): it would be misread.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "absl/status/status.h"

namespace switchtower {

template <typename Proto>
absl::Status CheckMessageVersion(const Proto& proto, std::string_view what) {
  if (proto.version_number() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} is of version {}, this server knows 0", what, proto.version_number()));
}

}  // namespace switchtower
