#include "controller/graph/session_context.h"

#include <fmt/format.h>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"

namespace switchtower {

absl::Status SessionContext::BindErrors(absl::Span<const ArrayId> results, absl::Status error, uint64_t user_context) {
  error = WithUserContext(std::move(error), user_context);
  for (ArrayId result : results) {
    // A handle that is in use keeps what it has.
    arrays.BindError(result, nullptr, error).IgnoreError();
  }
  return error;
}

absl::Status SessionContext::CheckResults(absl::Span<const ArrayId> results) const {
  absl::flat_hash_set<ArrayId> seen;
  for (ArrayId result : results) {
    RETURN_IF_ERROR(arrays.CheckFree(result));
    if (results.size() > 1 && !seen.insert(result).second) {
      return absl::InvalidArgumentError(fmt::format("result handle {} is named twice", result.value));
    }
  }
  return absl::OkStatus();
}

}  // namespace switchtower
