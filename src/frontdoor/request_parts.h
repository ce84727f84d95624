// Parts that many requests have: handles, array specs, copy semantics.
//
// Errors: InvalidArgument, with the handle or number at fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/api/session.h"
#include "frontdoor/session_state.h"
#include "google/protobuf/repeated_field.h"
#include "wire/ifrt/array_spec.h"
#include "xla/python/ifrt_proxy/common/types.pb.h"

namespace switchtower {

using Handles = google::protobuf::RepeatedField<uint64_t>;

// Clients draw handles from 1 to below this, servers from it up.
inline constexpr uint64_t kServerHandleMin = uint64_t{1} << 48;

absl::Status CheckClientHandle(uint64_t handle);

// Arguments: any handle; the session knows which exist.
std::vector<ArrayId> ArrayIds(const Handles& handles);

// The ids of `count` arrays that a request makes: the client's choice, or new ones if it chose none.
absl::StatusOr<std::vector<ArrayId>> ResultIds(SessionState& state, const Handles& handles, size_t count);
Handles ToHandles(const std::vector<ArrayId>& ids);

// A request failed before the session could know of its results: binds them to the error, which it returns.
absl::Status BindErrors(SessionState& state, const RequestContext& context, const Handles& results,
                        const absl::Status& error);
absl::Status BindErrors(SessionState& state, const RequestContext& context, uint64_t result, const absl::Status& error);

absl::StatusOr<CopySemantics> ParseSemantics(xla::ifrt::proto::ArrayCopySemantics proto);

// Empty, or one of the devices' memory kinds.
absl::Status CheckMemoryKind(const Session& session, const std::string& memory_kind);

absl::StatusOr<ArraySpec> ToArraySpec(const SessionState& state, ParsedArraySpec parsed);
absl::StatusOr<ArraySpec> ParseArraySpec(const SessionState& state, const xla::ifrt::ArraySpecProto& proto);
absl::StatusOr<std::vector<ArraySpec>> ParseArraySpecs(
    const SessionState& state, const google::protobuf::RepeatedPtrField<xla::ifrt::ArraySpecProto>& protos);

}  // namespace switchtower
