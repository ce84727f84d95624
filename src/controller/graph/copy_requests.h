// Requests that make arrays of arrays: copies, reshards, remaps, assembly and the reverse, bitcasts.
//
// Place:    controller/graph.
// Threads:  the session's strand.
// Errors:   each result is bound, to an array or to the error of its own source; the first error is returned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "controller/graph/session_context.h"

namespace switchtower {

absl::Status CopyArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                        absl::Span<const DeviceId> devices, const std::optional<std::string>& memory_kind,
                        CopySemantics semantics, uint64_t user_context);
absl::Status ReshardArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                           absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context);
absl::Status AssembleArray(SessionContext& session, ArrayId result, const ArraySpec& spec,
                           absl::Span<const ArrayId> parts, CopySemantics semantics, uint64_t user_context);
absl::Status DisassembleArray(SessionContext& session, ArrayId array, absl::Span<const ArrayId> results,
                              CopySemantics semantics, uint64_t user_context);
absl::Status FirstShard(SessionContext& session, ArrayId array, ArrayId result, CopySemantics semantics,
                        uint64_t user_context);
absl::Status RemapArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArraySpec> inputs,
                         absl::Span<const ArrayId> results, absl::Span<const ArraySpec> outputs,
                         absl::Span<const ShardMapping> mappings, CopySemantics semantics, uint64_t user_context);
absl::Status BitcastArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                           absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context);

}  // namespace switchtower
