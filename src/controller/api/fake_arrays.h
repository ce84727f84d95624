// Arrays of the fake session: each shard is a string of dense row-major bytes, there or to come.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "controller/api/session.h"

namespace switchtower {

// The future of one shard's bytes. Any thread.
class FakeShard {
 public:
  void Fill(absl::StatusOr<std::string> value) EXCLUDES(mutex_);
  // Runs `done` once the shard has bytes or an error.
  void Wait(Callback<const absl::StatusOr<std::string>&> done) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool filled_ GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::string> value_ = absl::UnknownError("pending");  // fixed once filled
  std::vector<Callback<const absl::StatusOr<std::string>&>> waiters_ GUARDED_BY(mutex_);
};

struct FakeArray {
  ArraySpec spec;
  absl::Status error;  // set if the array couldn't be made
  bool deleted = false;
  std::vector<std::shared_ptr<FakeShard>> shards;
};

// All of its shards are to come.
FakeArray PendingArray(const ArraySpec& spec);

// Bytes between a strided region (first element first) and dense row-major ones. Strings pass unchanged.
absl::StatusOr<std::string> ToDense(const Shape& shape, const std::optional<std::vector<int64_t>>& strides,
                                    const std::string& region);
absl::StatusOr<std::string> FromDense(const Shape& shape, const std::optional<std::vector<int64_t>>& strides,
                                      const std::string& dense);

// Copies `box` of an array of `shape`: out of its dense bytes, or into them.
std::string CutBox(const Shape& shape, const Box& box, const std::string& whole);
void PasteBox(const Shape& shape, const Box& box, const std::string& part, std::string* whole);

// Calls `done` when all shards are filled, with the first error in their order.
void WaitForAll(std::vector<std::shared_ptr<FakeShard>> shards, Callback<absl::Status> done);

}  // namespace switchtower
