#include "frontdoor/request_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"

namespace switchtower {

absl::Status CheckClientHandle(uint64_t handle) {
  if (handle > 0 && handle < kServerHandleMin) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("handle {} isn't in the range of clients", handle));
}

std::vector<ArrayId> ArrayIds(const Handles& handles) {
  std::vector<ArrayId> ids;
  ids.reserve(handles.size());
  for (uint64_t handle : handles) ids.push_back(ArrayId{handle});
  return ids;
}

absl::StatusOr<std::vector<ArrayId>> ResultIds(SessionState& state, const Handles& handles, size_t count) {
  std::vector<ArrayId> ids;
  if (handles.empty()) {
    for (size_t i = 0; i < count; ++i) ids.push_back(ArrayId{state.session.NewHandle()});
    return ids;
  }
  if (static_cast<size_t>(handles.size()) != count) {
    return absl::InvalidArgumentError(fmt::format("{} result handles for {} results", handles.size(), count));
  }
  absl::flat_hash_set<uint64_t> seen;
  for (uint64_t handle : handles) {
    RETURN_IF_ERROR(CheckClientHandle(handle));
    if (!seen.insert(handle).second) {
      return absl::InvalidArgumentError(fmt::format("result handle {} is given twice", handle));
    }
    ids.push_back(ArrayId{handle});
  }
  return ids;
}

Handles ToHandles(const std::vector<ArrayId>& ids) {
  Handles handles;
  handles.Reserve(static_cast<int>(ids.size()));
  for (ArrayId id : ids) handles.Add(id.value);
  return handles;
}

absl::Status BindErrors(SessionState& state, const RequestContext& context, uint64_t result,
                        const absl::Status& error) {
  const absl::Status full = AttachUserContext(error, context.user_context);
  if (CheckClientHandle(result).ok()) state.session.BindError(ArrayId{result}, full);
  return full;
}

absl::Status BindErrors(SessionState& state, const RequestContext& context, const Handles& results,
                        const absl::Status& error) {
  const absl::Status full = AttachUserContext(error, context.user_context);
  for (uint64_t result : results) BindErrors(state, context, result, full).IgnoreError();
  return full;
}

absl::StatusOr<CopySemantics> ParseSemantics(xla::ifrt::proto::ArrayCopySemantics proto) {
  switch (proto) {
    case xla::ifrt::proto::ARRAY_COPY_SEMANTICS_UNSPECIFIED:
    case xla::ifrt::proto::ARRAY_COPY_SEMANTICS_ALWAYS_COPY:
      return CopySemantics::kAlwaysCopy;
    case xla::ifrt::proto::ARRAY_COPY_SEMANTICS_REUSE_INPUT:
      return CopySemantics::kReuseInput;
    case xla::ifrt::proto::ARRAY_COPY_SEMANTICS_DONATE_INPUT:
      return CopySemantics::kDonateInput;
    default:
      return absl::InvalidArgumentError(fmt::format("unknown copy semantics {}", static_cast<int>(proto)));
  }
}

absl::Status CheckMemoryKind(const Session& session, const std::string& memory_kind) {
  const std::vector<std::string>& kinds = session.description().memory_kinds;
  if (memory_kind.empty() || std::find(kinds.begin(), kinds.end(), memory_kind) != kinds.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("devices have no memory of kind \"{}\"", memory_kind));
}

absl::StatusOr<ArraySpec> ToArraySpec(const SessionState& state, ParsedArraySpec parsed) {
  RETURN_IF_ERROR(CheckMemoryKind(state.session, parsed.sharding.memory_kind));
  return ArraySpec{std::move(parsed.shape), std::move(parsed.sharding), std::move(parsed.layout)};
}

absl::StatusOr<ArraySpec> ParseArraySpec(const SessionState& state, const xla::ifrt::ArraySpecProto& proto) {
  ASSIGN_OR_RETURN(ParsedArraySpec parsed, FromProto(proto, state.devices));
  return ToArraySpec(state, std::move(parsed));
}

absl::StatusOr<std::vector<ArraySpec>> ParseArraySpecs(
    const SessionState& state, const google::protobuf::RepeatedPtrField<xla::ifrt::ArraySpecProto>& protos) {
  std::vector<ArraySpec> specs;
  for (const auto& proto : protos) {
    ASSIGN_OR_RETURN(specs.emplace_back(), ParseArraySpec(state, proto));
  }
  return specs;
}

}  // namespace switchtower
