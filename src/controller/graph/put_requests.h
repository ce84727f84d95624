// Arrays from host bytes.
//
// Place:    controller/graph.
// Threads:  the session's strand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "controller/graph/session_context.h"

namespace switchtower {

absl::Status MakeArrayFromHost(SessionContext& session, ArrayId result, const ArraySpec& spec,
                               std::vector<HostShard> shards, uint64_t user_context);

// Bytes that a host buffer of this shape has: dense, or the minimal strided region. -1 for strings, whose
// encoding has any length.
absl::StatusOr<int64_t> HostBufferBytes(const Shape& shape, const std::optional<std::vector<int64_t>>& byte_strides);

}  // namespace switchtower
