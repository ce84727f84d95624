// Why something waits: the chain of unmet dependencies in a snapshot, from what a client waits for down to a launch, a
// transfer, an upload or a host that is slow or gone.
//
//   wait -> array -> launch -> head of a device's queue -> its missing arrays -> ...
//                \-> transfer -> source array, source worker    '-> collective -> the ranks that aren't in
//
// Place:    inspect; pure. Runs where somebody asks (the command line), over what the proxy sent.
// Errors:   InvalidArgument or NotFound that say what may be asked for.
// Invariants: W-1 each launch, array and collective is explained once; where it comes up again it is only named. So the
//           walk ends, whatever the snapshot says.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "switchtower/introspection_service.pb.h"

namespace switchtower {

// `target`: "" (everything that clients wait for), "session ID", "array ID", "device ID" (as the client numbers them)
// or "device SLICE/HOST/DEVICE"; the first word may be left out where the rest tells.
absl::StatusOr<introspection::WhyReport> ExplainWhy(const introspection::Snapshot& snapshot, const std::string& target);

// One line a reason, indented under what it explains.
std::string WhyText(const introspection::WhyReport& report);

}  // namespace switchtower
