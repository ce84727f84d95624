// Requests about the values of arrays: readiness, reads, the end of arrays.
//
// Place:    controller/graph.
// Threads:  the session's strand; callbacks run anywhere.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "controller/graph/session_context.h"

namespace switchtower {

void WhenArraysReady(SessionContext& session, absl::Span<const ArrayId> arrays, Callback<absl::Status> done);
void ReadArray(SessionContext& session, ArrayId array, std::optional<std::vector<int64_t>> byte_strides,
               Callback<absl::StatusOr<std::vector<HostBuffer::Chunk>>> done);
absl::StatusOr<bool> IsArrayDeleted(SessionContext& session, ArrayId array);
// `forget`: the handles too. All that can be deleted is, whatever the others are.
absl::Status DeleteArrayBuffers(SessionContext& session, absl::Span<const ArrayId> arrays, bool forget);

}  // namespace switchtower
