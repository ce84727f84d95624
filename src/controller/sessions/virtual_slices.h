// The words of --virtual_slices: "cpu:2x2,cpu:2x2".
//
// Errors:   INVALID_ARGUMENT that quotes the word and shows the form.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

// Empty for an empty text.
absl::StatusOr<std::vector<SliceRequest>> ParseVirtualSlices(const std::string& text);

}  // namespace switchtower
