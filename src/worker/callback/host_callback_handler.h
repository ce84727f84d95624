// The XLA FFI handler behind calls of programs into their client (hlo/host_callbacks.h).
//
//   program --custom call--> handler: buffers -> HostCall --> HostCallTable::Begin --> future
//
// Place:    worker/callback; sees XLA's FFI headers through worker/collective/ffi_binding.h. For engines whose device
//           memory is host memory.
// Threads:  XLA's; the handler copies its operands and returns a future.
// Errors:   a call that can't be made ends its execution: bad attributes, more bytes than one message takes.
#pragma once

#include "absl/status/status.h"
#include "worker/engine/engine.h"

namespace switchtower {

// Before the engine loads programs. After RegisterCollectives, which makes LaunchContexts known.
absl::Status RegisterHostCallbacks(Engine& engine);

}  // namespace switchtower
