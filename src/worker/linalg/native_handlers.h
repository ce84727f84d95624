// The native functions that programs call (hlo/native_calls.h), as XLA FFI handlers.
//
//   program --custom call--> handler: shapes and attributes checked --> LAPACK, on the calling thread
//                                                                       and, for batches, XLA's pool
//
// Place:    worker/linalg. For engines whose device memory is host memory.
// Threads:  handlers run on XLA's threads, for all devices at once; they return when the result is there.
// Lifetime: registered for the rest of the process.
// Errors:   InvalidArgument, ResourceExhausted: that execution fails. A matrix that can't be factored is no error: its
//           `info` result says so, and jax turns it into NaN.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/engine.h"

namespace switchtower {

struct NativeHandler {
  std::string target;
  void* handler = nullptr;  // XLA_FFI_Handler*
};

// One for each of kNativeCalls.
std::vector<NativeHandler> NativeHandlers();

// Before programs are loaded.
absl::Status RegisterNativeHandlers(Engine& engine);

}  // namespace switchtower
