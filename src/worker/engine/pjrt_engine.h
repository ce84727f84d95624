// The engine over a PJRT plug-in.
//
// Place:    worker/engine; the one part of the worker that links pjrt.
// Threads:  as Engine says.
// Lifetime: made by Create. Buffers and programs hold the PJRT client, which ends after the last of them.
// Errors:   the plug-in's code and message, with what was tried in front.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"

namespace switchtower {

// Opens the plug-in, makes its client for this slice and reads what the devices are.
absl::StatusOr<std::unique_ptr<Engine>> CreatePjrtEngine(const EngineOptions& options);

}  // namespace switchtower
