// Futures that a client knows by handle and asks for once: readiness of executables and deletions, ends of
// executions.
//
// Threads:  any.
// Errors:   InvalidArgument for a handle that isn't there (never NotFound: elastic clients take that word for
//           a lost slice).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "controller/api/session.h"

namespace switchtower {

class FutureTable {
 public:
  // A new future, pending. The callback fills it, may be run on any thread, and may outlive the table.
  absl::StatusOr<Callback<absl::Status>> Add(uint64_t handle) EXCLUDES(mutex_);
  // A new future with its value.
  absl::Status AddFilled(uint64_t handle, absl::Status value) EXCLUDES(mutex_);
  // Forgets the handle; `done` gets the value, perhaps later, perhaps at once.
  void Take(uint64_t handle, Callback<absl::Status> done) EXCLUDES(mutex_);
  // Forgets the handle without asking.
  void Drop(uint64_t handle) EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);

 private:
  struct Future;

  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Future>> futures_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
