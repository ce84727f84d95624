// Arrays made of arrays, and their end.
#include <optional>

#include "base/status_macros.h"
#include "frontdoor/handlers.h"
#include "frontdoor/request_parts.h"
#include "wire/ifrt/remap_plan.h"
#include "wire/ifrt/shape.h"

namespace switchtower {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT: request and response messages only

absl::Status CheckShardSemantics(int semantics) {
  // All devices are addressable here, so "addressable" and "all" mean the same.
  if (xla::ifrt::proto::SingleDeviceShardSemantics_IsValid(semantics)) return absl::OkStatus();
  return absl::InvalidArgumentError("unknown single-device shard semantics");
}

// Runs `make`, which gives the ids that it bound; if it fails before the session binds them, binds them here.
template <typename Parse>
auto ParseOrBind(SessionState& state, const RequestContext& context, const Handles& results, Parse parse)
    -> decltype(parse()) {
  auto parsed = parse();
  if (!parsed.ok()) return BindErrors(state, context, results, parsed.status());
  return parsed;
}

Handles Single(uint64_t handle) {
  Handles handles;
  if (handle != 0) handles.Add(handle);
  return handles;
}

struct SpecChange {
  std::vector<ArrayId> arrays, results;
  std::vector<ArraySpec> specs;
  CopySemantics semantics;
};

// Reshard and bitcast: one spec and one result for each array.
template <typename Request>
absl::StatusOr<SpecChange> ParseSpecChange(SessionState& state, const Request& request) {
  SpecChange change;
  change.arrays = ArrayIds(request.array_handles());
  ASSIGN_OR_RETURN(change.specs, ParseArraySpecs(state, request.array_specs()));
  if (change.specs.size() != change.arrays.size()) {
    return absl::InvalidArgumentError("as many array specs as arrays are needed");
  }
  ASSIGN_OR_RETURN(change.semantics, ParseSemantics(request.copy_semantics()));
  ASSIGN_OR_RETURN(change.results, ResultIds(state, request.result_handles(), change.arrays.size()));
  return change;
}

}  // namespace

absl::Status HandleAssembleArrayFromSingleDeviceArrays(SessionState& state, const RequestContext& context,
                                                       const AssembleArrayFromSingleDeviceArraysRequest& request,
                                                       AssembleArrayFromSingleDeviceArraysResponse* response) {
  struct Parsed {
    ArraySpec spec;
    CopySemantics semantics;
    ArrayId result;
  };
  const Handles results = Single(request.result_handle());
  auto parse = [&]() -> absl::StatusOr<Parsed> {
    Parsed parsed;
    // Without a dtype the parts' counts; the widest type stands in for it in the check of the size.
    xla::ifrt::DTypeProto dtype = request.dtype();
    if (!request.has_dtype()) dtype.set_kind(xla::ifrt::DTypeProto::KIND_C128);
    ASSIGN_OR_RETURN(parsed.spec.shape, FromProto(dtype, request.shape()));
    ASSIGN_OR_RETURN(parsed.spec.sharding, FromProto(request.sharding(), parsed.spec.shape, state.devices));
    RETURN_IF_ERROR(CheckMemoryKind(state.session, parsed.spec.sharding.memory_kind));
    if (!request.has_dtype()) parsed.spec.shape.dtype = DType::kInvalid;
    ASSIGN_OR_RETURN(parsed.semantics, ParseSemantics(request.copy_semantics()));
    RETURN_IF_ERROR(CheckShardSemantics(request.single_device_shard_semantics()));
    ASSIGN_OR_RETURN(const std::vector<ArrayId> ids, ResultIds(state, results, 1));
    parsed.result = ids[0];
    return parsed;
  };
  ASSIGN_OR_RETURN(const Parsed parsed, ParseOrBind(state, context, results, parse));
  response->set_array_handle(parsed.result.value);
  return state.session.Assemble(parsed.result, parsed.spec, ArrayIds(request.single_device_array_handles()),
                                parsed.semantics, context.user_context);
}

absl::Status HandleDisassembleIntoSingleDeviceArrays(SessionState& state, const RequestContext& context,
                                                     const DisassembleIntoSingleDeviceArraysRequest& request,
                                                     DisassembleIntoSingleDeviceArraysResponse* response) {
  struct Parsed {
    CopySemantics semantics;
    std::vector<ArrayId> results;
  };
  auto parse = [&]() -> absl::StatusOr<Parsed> {
    Parsed parsed;
    if (request.result_handles().empty()) {
      return absl::InvalidArgumentError("disassembling needs a result handle for each shard");
    }
    ASSIGN_OR_RETURN(parsed.semantics, ParseSemantics(request.copy_semantics()));
    RETURN_IF_ERROR(CheckShardSemantics(request.single_device_shard_semantics()));
    ASSIGN_OR_RETURN(parsed.results, ResultIds(state, request.result_handles(), request.result_handles().size()));
    return parsed;
  };
  ASSIGN_OR_RETURN(const Parsed parsed, ParseOrBind(state, context, request.result_handles(), parse));
  *response->mutable_array_handles() = request.result_handles();
  return state.session.Disassemble(ArrayId{request.array_handle()}, parsed.results, parsed.semantics,
                                   context.user_context);
}

absl::Status HandleFullyReplicatedShard(SessionState& state, const RequestContext& context,
                                        const FullyReplicatedShardRequest& request,
                                        FullyReplicatedShardResponse* response) {
  const Handles results = Single(request.result_handle());
  ASSIGN_OR_RETURN(const CopySemantics semantics,
                   ParseOrBind(state, context, results, [&] { return ParseSemantics(request.copy_semantics()); }));
  ASSIGN_OR_RETURN(const std::vector<ArrayId> ids, ResultIds(state, results, 1));
  response->set_array_handle(ids[0].value);
  return state.session.FullyReplicatedShard(ArrayId{request.array_handle()}, ids[0], semantics, context.user_context);
}

absl::Status HandleCopyArrays(SessionState& state, const RequestContext& context, const CopyArraysRequest& request,
                              CopyArraysResponse* response) {
  struct Parsed {
    std::vector<DeviceId> devices;
    std::optional<std::string> memory_kind;
    CopySemantics semantics;
    std::vector<ArrayId> results;
  };
  auto parse = [&]() -> absl::StatusOr<Parsed> {
    Parsed parsed;
    ASSIGN_OR_RETURN(parsed.devices,
                     ParseDevices(request.device_ids().data(), request.device_ids_size(), state.devices));
    if (request.has_memory_kind()) {
      RETURN_IF_ERROR(CheckMemoryKind(state.session, request.memory_kind()));
      parsed.memory_kind = request.memory_kind();
    }
    ASSIGN_OR_RETURN(parsed.semantics, ParseSemantics(request.copy_semantics()));
    ASSIGN_OR_RETURN(parsed.results, ResultIds(state, request.result_handles(), request.array_handles().size()));
    return parsed;
  };
  ASSIGN_OR_RETURN(const Parsed parsed, ParseOrBind(state, context, request.result_handles(), parse));
  *response->mutable_array_handles() = ToHandles(parsed.results);
  return state.session.Copy(ArrayIds(request.array_handles()), parsed.results, parsed.devices, parsed.memory_kind,
                            parsed.semantics, context.user_context);
}

absl::Status HandleRemapArrays(SessionState& state, const RequestContext& context, const RemapArraysRequest& request,
                               RemapArraysResponse* response) {
  struct Parsed {
    std::vector<ArraySpec> inputs, outputs;
    std::vector<ShardMapping> mappings;
    CopySemantics semantics;
    std::vector<ArrayId> results;
  };
  auto parse = [&]() -> absl::StatusOr<Parsed> {
    Parsed parsed;
    ASSIGN_OR_RETURN(RemapPlan plan, FromProto(request.plan(), state.devices));
    if (static_cast<int>(plan.inputs.size()) != request.array_handles().size()) {
      return absl::InvalidArgumentError("the remap plan is for another number of arrays");
    }
    for (ParsedArraySpec& spec : plan.inputs) {
      ASSIGN_OR_RETURN(parsed.inputs.emplace_back(), ToArraySpec(state, std::move(spec)));
    }
    for (ParsedArraySpec& spec : plan.outputs) {
      ASSIGN_OR_RETURN(parsed.outputs.emplace_back(), ToArraySpec(state, std::move(spec)));
    }
    for (const RemapPlan::Move& move : plan.moves) {
      parsed.mappings.push_back({move.in, move.out, move.from_shard, move.to_shard});
    }
    ASSIGN_OR_RETURN(parsed.semantics, ParseSemantics(request.copy_semantics()));
    ASSIGN_OR_RETURN(parsed.results, ResultIds(state, request.result_handles(), parsed.outputs.size()));
    return parsed;
  };
  ASSIGN_OR_RETURN(const Parsed parsed, ParseOrBind(state, context, request.result_handles(), parse));
  *response->mutable_array_handles() = ToHandles(parsed.results);
  return state.session.Remap(ArrayIds(request.array_handles()), parsed.inputs, parsed.results, parsed.outputs,
                             parsed.mappings, parsed.semantics, context.user_context);
}

absl::Status HandleReshardArrays(SessionState& state, const RequestContext& context,
                                 const ReshardArraysRequest& request, ReshardArraysResponse* response) {
  ASSIGN_OR_RETURN(const SpecChange change, ParseOrBind(state, context, request.result_handles(),
                                                        [&] { return ParseSpecChange(state, request); }));
  *response->mutable_array_handles() = ToHandles(change.results);
  return state.session.Reshard(change.arrays, change.results, change.specs, change.semantics, context.user_context);
}

absl::Status HandleBitcastArrays(SessionState& state, const RequestContext& context,
                                 const BitcastArraysRequest& request, BitcastArraysResponse* response) {
  ASSIGN_OR_RETURN(const SpecChange change, ParseOrBind(state, context, request.result_handles(),
                                                        [&] { return ParseSpecChange(state, request); }));
  *response->mutable_array_handles() = ToHandles(change.results);
  return state.session.Bitcast(change.arrays, change.results, change.specs, change.semantics, context.user_context);
}

absl::Status HandleDeleteArray(SessionState& state, const RequestContext& context, const DeleteArrayRequest& request,
                               DeleteArrayResponse* response) {
  const uint64_t future = state.session.NewHandle();
  response->set_deletion_future_handle(future);
  // The order of requests is the order of effects, so the deletion is done when this returns.
  return state.futures->AddFilled(
      future, AttachUserContext(state.session.Delete(ArrayIds(request.array_handle())), context.user_context));
}

absl::Status HandleIsArrayDeleted(SessionState& state, const RequestContext& context,
                                  const IsArrayDeletedRequest& request, IsArrayDeletedResponse* response) {
  ASSIGN_OR_RETURN(const bool deleted, state.session.IsDeleted(ArrayId{request.array_handle()}));
  response->set_deleted(deleted);
  return absl::OkStatus();
}

absl::Status HandleDestructArray(SessionState& state, const RequestContext& context,
                                 const DestructArrayRequest& request, DestructArrayResponse* response) {
  state.user_contexts->Destructed({request.array_handle().data(), static_cast<size_t>(request.array_handle_size())});
  return state.session.Destruct(ArrayIds(request.array_handle()));
}

}  // namespace switchtower
