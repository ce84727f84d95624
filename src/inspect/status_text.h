// `switchtower status` and `top`: a snapshot as tables for a terminal.
//
// Place: inspect; pure.
#pragma once

#include <string>

#include "switchtower/introspection_service.pb.h"

namespace switchtower {

std::string StatusText(const introspection::Snapshot& snapshot);

// One line a device. `before` is an earlier snapshot, for rates; it may be empty.
std::string TopText(const introspection::Snapshot& before, const introspection::Snapshot& now);

}  // namespace switchtower
