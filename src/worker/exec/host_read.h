// A buffer's value as dense row-major host bytes: in place where the engine lets us look, by a copy otherwise.
//
// Place:    worker/exec; under the reader and the transfers.
// Threads:  any; `done` runs at once or on a thread of the engine.
#pragma once

#include <memory>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/store/buffer_entry.h"

namespace switchtower {

struct DenseBytes {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
  Shape shape;
};

// The pin's entry must be ready. String arrays give their bytes as they are.
void ReadDense(Engine& engine, std::shared_ptr<const EntryPin> pin,
               absl::AnyInvocable<void(absl::StatusOr<DenseBytes>)> done);

}  // namespace switchtower
