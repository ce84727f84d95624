// The arrays of one session by handle.
//
// Place:    controller/arrays; the session's only record of its arrays.
// Threads:  the session's strand.
// Errors:   INVALID_ARGUMENT for a handle that is unknown, in use or deleted (never NOT_FOUND: clients take
//           that word for a lost slice); an array's own error; DATA_LOSS with a lost shard.
// Invariants: A-1 a handle that was promised is bound to an array or an error until it is destructed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "controller/arrays/array_info.h"

namespace switchtower {

class ArrayTable {
 public:
  explicit ArrayTable(std::shared_ptr<const LossLedger> losses) : losses_(std::move(losses)) {}

  // Whether `id` may be given to a new array.
  absl::Status CheckFree(ArrayId id) const;
  // Both are refused, and the older binding stays, where the handle is in use.
  absl::Status Bind(ArrayId id, ArrayInfoPtr info, LossLedger::Stamp stamp, uint64_t user_context, uint64_t launch = 0);
  absl::Status BindError(ArrayId id, ArrayInfoPtr info, absl::Status error);

  // A live array whose shards are all there or to come. The pointer holds until the table changes.
  absl::StatusOr<LogicalArray*> Live(ArrayId id);
  // The same for some of its seats: healthy shards of a lost array stay readable (S-7).
  absl::StatusOr<LogicalArray*> LiveOn(ArrayId id, const std::vector<int32_t>& seats);
  // Any that is known, deleted ones too; null if it isn't.
  LogicalArray* Find(ArrayId id);
  void MarkDeleted(LogicalArray& array, const char* by);
  void Erase(ArrayId id) { arrays_.erase(id); }

  const LossLedger& losses() const { return *losses_; }
  size_t size() const { return arrays_.size(); }
  void Clear() { arrays_.clear(); }

 private:
  absl::StatusOr<LogicalArray*> Existing(ArrayId id);

  const std::shared_ptr<const LossLedger> losses_;
  absl::flat_hash_map<ArrayId, LogicalArray> arrays_;
};

}  // namespace switchtower
