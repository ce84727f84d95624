// Where this installation keeps its parts.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace switchtower {

// The running binary's own path.
std::string BinaryPath();
// The default engine: $SWITCHTOWER_PJRT_PLUGIN, or the CPU plug-in that `make build` installed beside the
// binary. NOT_FOUND says how to get or name one.
absl::StatusOr<std::string> DefaultPjrtPlugin();
// The folder to put on PYTHONPATH so that plain jax knows the proxy backend; empty if it isn't there.
std::string PythonPath();

}  // namespace switchtower
