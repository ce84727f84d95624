#include "controller/arrays/array_table.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/cord.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace switchtower {

absl::Status WithUserContext(absl::Status status, uint64_t user_context) {
  if (status.ok() || user_context == 0 || status.GetPayload(kUserContextPayload).has_value()) return status;
  status.SetPayload(kUserContextPayload, absl::Cord(fmt::format("{}", user_context)));
  return status;
}

absl::Status ArrayTable::CheckFree(ArrayId id) const {
  if (id.value == 0) return absl::InvalidArgumentError("array handle 0 can't be used");
  if (arrays_.contains(id)) {
    return absl::InvalidArgumentError(fmt::format("array handle {} is in use", id.value));
  }
  return absl::OkStatus();
}

absl::Status ArrayTable::Bind(ArrayId id, ArrayInfoPtr info, LossLedger::Stamp stamp, uint64_t user_context,
                              uint64_t launch) {
  RETURN_IF_ERROR(CheckFree(id));
  LogicalArray& array = arrays_[id];
  array.info = std::move(info);
  array.stamp = stamp;
  array.user_context = user_context;
  array.launch = launch;
  array.on_workers = true;
  return absl::OkStatus();
}

absl::Status ArrayTable::BindError(ArrayId id, ArrayInfoPtr info, absl::Status error) {
  CHECK(!error.ok());
  RETURN_IF_ERROR(CheckFree(id));
  LogicalArray& array = arrays_[id];
  array.info = std::move(info);
  array.error = std::move(error);
  return absl::OkStatus();
}

LogicalArray* ArrayTable::Find(ArrayId id) {
  auto it = arrays_.find(id);
  return it == arrays_.end() ? nullptr : &it->second;
}

absl::StatusOr<LogicalArray*> ArrayTable::Existing(ArrayId id) {
  LogicalArray* array = Find(id);
  if (array == nullptr) {
    return absl::InvalidArgumentError(fmt::format("array handle {} isn't known", id.value));
  }
  if (array->deleted) {
    return absl::InvalidArgumentError(
        fmt::format("Array has been {}{}.", array->deleted_by,
                    array->info == nullptr ? "" : fmt::format(" with shape={}", array->info->spec.shape.ToString())));
  }
  if (!array->error.ok()) return array->error;
  return array;
}

absl::StatusOr<LogicalArray*> ArrayTable::Live(ArrayId id) {
  ASSIGN_OR_RETURN(LogicalArray * array, Existing(id));
  absl::Status loss = losses_->Check(array->info->devices->seats, array->stamp);
  if (!loss.ok()) return WithUserContext(std::move(loss), array->user_context);
  return array;
}

absl::StatusOr<LogicalArray*> ArrayTable::LiveOn(ArrayId id, const std::vector<int32_t>& seats) {
  ASSIGN_OR_RETURN(LogicalArray * array, Existing(id));
  absl::Status loss = losses_->Check(seats, array->stamp);
  if (!loss.ok()) return WithUserContext(std::move(loss), array->user_context);
  return array;
}

void ArrayTable::MarkDeleted(LogicalArray& array, const char* by) {
  array.deleted = true;
  array.deleted_by = by;
}

}  // namespace switchtower
