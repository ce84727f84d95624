// Arrays from host buffers and back. Buffers travel by their own RPCs (host_buffer_rpcs.h); a request here may
// come before its buffer.
#include <fmt/format.h>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "frontdoor/handlers.h"
#include "frontdoor/request_parts.h"
#include "wire/ifrt/shape.h"
#include "wire/ifrt/status.h"

namespace switchtower {
namespace {

using xla::ifrt::proxy::CopyToHostBufferRequest;
using xla::ifrt::proxy::MakeArrayFromHostBufferRequest;
using xla::ifrt::proxy::MakeArraysFromHostBufferShardsRequest;
using ShardsSpec = MakeArraysFromHostBufferShardsRequest::MakeArraysFromHostBufferShardsSpec;
using Strides = std::optional<std::vector<int64_t>>;

template <typename Proto>
Strides ParseStrides(const Proto& proto) {
  if (!proto.has_byte_strides()) return std::nullopt;
  const auto& strides = proto.byte_strides().strides();
  return std::vector<int64_t>(strides.begin(), strides.end());
}

// Bytes that the client's buffer for a shard must have; -1 for strings, whose size nobody can know.
absl::StatusOr<int64_t> RegionBytes(const Shape& shape, const Strides& strides) {
  if (shape.dtype == DType::kString) {
    if (strides.has_value()) return absl::InvalidArgumentError("string arrays have no byte strides");
    return -1;
  }
  if (!strides.has_value() || (strides->empty() && shape.rank() == 0)) return shape.host_bytes();
  return StridedBytes(shape, *strides);
}

struct NewArray {
  ArraySpec spec;
  std::vector<HostShard> shards;
  // The client's buffer of each shard, and the bytes that it must have.
  struct Wanted {
    uint64_t handle = 0;
    int64_t bytes = 0;
  };
  std::vector<Wanted> buffers;
};

// The buffer of `handle` fills the shards at `positions`, all of `shape`. It isn't taken yet.
absl::Status AddShard(uint64_t handle, const Shape& shape, Strides strides, std::vector<int32_t> positions,
                      NewArray& array) {
  ASSIGN_OR_RETURN(const int64_t bytes, RegionBytes(shape, strides));
  array.buffers.push_back({handle, bytes});
  HostShard& shard = array.shards.emplace_back();
  shard.shard_positions = std::move(positions);
  if (strides.has_value() && shape.rank() > 0) {
    // NumPy leaves anything in the stride of a dimension that takes no step.
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dims[d] <= 1) (*strides)[d] = HostBytes(shape.dtype);
    }
    shard.byte_strides = std::move(strides);
  }
  return absl::OkStatus();
}

// Takes the buffers of a request that is right in all else. If one of them can't be had the request fails, and with it
// the others go nowhere.
absl::Status TakeBuffers(HostBufferStore& store, absl::Span<NewArray> arrays) {
  absl::Status status;
  for (NewArray& array : arrays) {
    for (size_t i = 0; i < array.shards.size(); ++i) {
      auto buffer = store.Take(array.buffers[i].handle, array.buffers[i].bytes);
      status.Update(buffer.status());
      if (buffer.ok()) array.shards[i].buffer = *std::move(buffer);
    }
  }
  return status;
}

// The shards that a single buffer with the whole array fills.
absl::StatusOr<std::vector<int32_t>> WholePositions(const Sharding& sharding) {
  if (sharding.kind == Sharding::Kind::kMaximal) {
    return std::vector<int32_t>{static_cast<int32_t>(sharding.tile_devices[0])};
  }
  if (!sharding.IsFullyReplicated() && sharding.num_shards() > 1) {
    return absl::InvalidArgumentError("one host buffer can't fill the shards of an array that is cut");
  }
  std::vector<int32_t> positions(sharding.num_shards());
  for (int i = 0; i < sharding.num_shards(); ++i) positions[i] = i;
  return positions;
}

absl::StatusOr<NewArray> ParseWhole(SessionState& state, const MakeArrayFromHostBufferRequest& request) {
  NewArray array;
  ASSIGN_OR_RETURN(array.spec.shape, FromProto(request.dtype(), request.shape()));
  ASSIGN_OR_RETURN(array.spec.sharding, FromProto(request.sharding(), array.spec.shape, state.devices));
  RETURN_IF_ERROR(CheckMemoryKind(state.session, array.spec.sharding.memory_kind));
  if (request.has_layout()) {
    ASSIGN_OR_RETURN(array.spec.layout, FromProto(request.layout(), array.spec.shape.rank()));
  }
  ASSIGN_OR_RETURN(std::vector<int32_t> positions, WholePositions(array.spec.sharding));
  RETURN_IF_ERROR(
      AddShard(request.host_buffer_handle(), array.spec.shape, ParseStrides(request), std::move(positions), array));
  return array;
}

// `filled` holds which shards have a buffer already.
absl::StatusOr<std::vector<int32_t>> ParsePositions(const MakeArraysFromHostBufferShardsRequest::ShardIndices& indices,
                                                    const ArraySpec& spec, const Shape& shape,
                                                    std::vector<bool>* filled) {
  std::vector<int32_t> positions;
  for (int64_t index : indices.indices()) {
    if (index < 0 || index >= spec.sharding.num_shards() || (*filled)[index]) {
      return absl::InvalidArgumentError(
          fmt::format("shard {} of {} is out of range or filled twice", index, spec.sharding.num_shards()));
    }
    ASSIGN_OR_RETURN(const Shape expected, ShardShape(spec.sharding, spec.shape, static_cast<int>(index)));
    if (expected != shape) {
      return absl::InvalidArgumentError(
          fmt::format("shard {} is {}, its host buffer {}", index, expected.ToString(), shape.ToString()));
    }
    (*filled)[index] = true;
    positions.push_back(static_cast<int32_t>(index));
  }
  if (positions.empty()) return absl::InvalidArgumentError("a host buffer fills no shard");
  return positions;
}

absl::StatusOr<NewArray> ParseShards(SessionState& state, const ShardsSpec& proto) {
  NewArray array;
  ASSIGN_OR_RETURN(array.spec, ParseArraySpec(state, proto.array_spec()));
  if (proto.addressable_shard_indices_size() != proto.host_buffers_size()) {
    return absl::InvalidArgumentError(fmt::format("{} host buffers with {} lists of shards", proto.host_buffers_size(),
                                                  proto.addressable_shard_indices_size()));
  }
  std::vector<bool> filled(array.spec.sharding.num_shards(), false);
  for (int i = 0; i < proto.host_buffers_size(); ++i) {
    const auto& buffer = proto.host_buffers(i);
    ASSIGN_OR_RETURN(const Shape shape, FromProto(buffer.dtype(), buffer.shape()));
    ASSIGN_OR_RETURN(std::vector<int32_t> positions,
                     ParsePositions(proto.addressable_shard_indices(i), array.spec, shape, &filled));
    RETURN_IF_ERROR(AddShard(buffer.host_buffer_handle(), shape, ParseStrides(buffer), std::move(positions), array));
  }
  for (size_t i = 0; i < filled.size(); ++i) {
    if (!filled[i]) return absl::InvalidArgumentError(fmt::format("shard {} has no host buffer", i));
  }
  return array;
}

absl::StatusOr<std::vector<NewArray>> ParseAllShards(SessionState& state,
                                                     const MakeArraysFromHostBufferShardsRequest& request) {
  std::vector<NewArray> arrays;
  for (const ShardsSpec& spec : request.specs()) {
    ASSIGN_OR_RETURN(arrays.emplace_back(), ParseShards(state, spec));
  }
  return arrays;
}

Handles Single(uint64_t handle) {
  Handles handles;
  handles.Add(handle);
  return handles;
}

}  // namespace

absl::Status HandleMakeArrayFromHostBuffer(SessionState& state, const RequestContext& context,
                                           const MakeArrayFromHostBufferRequest& request,
                                           xla::ifrt::proxy::MakeArrayFromHostBufferResponse* response) {
  const Handles handles = request.has_array_handle() ? Single(request.array_handle()) : Handles();
  auto ids = ResultIds(state, handles, 1);
  auto array = ids.ok() ? ParseWhole(state, request) : ids.status();
  if (!array.ok()) {
    state.buffers->Discard(request.host_buffer_handle());
    return BindErrors(state, context, handles, array.status());
  }
  if (absl::Status status = TakeBuffers(*state.buffers, {&*array, 1}); !status.ok()) {
    return BindErrors(state, context, handles, status);
  }
  response->set_array_handle((*ids)[0].value);
  return state.session.MakeArray((*ids)[0], array->spec, std::move(array->shards), context.user_context);
}

absl::Status HandleMakeArraysFromHostBufferShards(SessionState& state, const RequestContext& context,
                                                  const MakeArraysFromHostBufferShardsRequest& request,
                                                  xla::ifrt::proxy::MakeArraysFromHostBufferShardsResponse* response) {
  auto ids = ResultIds(state, request.array_handles(), request.specs_size());
  absl::StatusOr<std::vector<NewArray>> arrays =
      ids.ok() ? ParseAllShards(state, request) : absl::StatusOr<std::vector<NewArray>>(ids.status());
  if (!arrays.ok()) {
    absl::flat_hash_set<uint64_t> unused;  // each once, however often the request names it
    for (const ShardsSpec& spec : request.specs()) {
      for (const auto& buffer : spec.host_buffers()) unused.insert(buffer.host_buffer_handle());
    }
    for (uint64_t handle : unused) state.buffers->Discard(handle);
    return BindErrors(state, context, request.array_handles(), arrays.status());
  }
  absl::Status status = TakeBuffers(*state.buffers, absl::MakeSpan(*arrays));
  if (!status.ok()) return BindErrors(state, context, request.array_handles(), status);
  for (size_t i = 0; i < arrays->size(); ++i) {
    NewArray& array = (*arrays)[i];
    status.Update(state.session.MakeArray((*ids)[i], array.spec, std::move(array.shards), context.user_context));
    response->add_array_handles((*ids)[i].value);
  }
  return status;
}

absl::Status HandleMakeErrorArrays(SessionState& state, const RequestContext& context,
                                   const xla::ifrt::proxy::MakeErrorArraysRequest& request,
                                   xla::ifrt::proxy::MakeErrorArraysResponse* response) {
  absl::Status error = FromProto(request.error());
  auto ids = ResultIds(state, request.array_handles(), request.array_specs_size());
  absl::StatusOr<std::vector<ArraySpec>> specs =
      ids.ok() ? ParseArraySpecs(state, request.array_specs()) : absl::StatusOr<std::vector<ArraySpec>>(ids.status());
  if (specs.ok() && error.ok()) specs = absl::InvalidArgumentError("an error array needs an error");
  if (!specs.ok()) return BindErrors(state, context, request.array_handles(), specs.status());
  error = AttachUserContext(std::move(error), context.user_context);
  for (size_t i = 0; i < ids->size(); ++i) {
    state.session.MakeErrorArray((*ids)[i], (*specs)[i], error);
    response->add_array_handles((*ids)[i].value);
  }
  return absl::OkStatus();
}

void HandleCopyToHostBuffer(SessionState& state, const RequestContext& context, CopyToHostBufferRequest& request,
                            const Replier& replier) {
  const uint64_t handle = request.host_buffer_handle();
  if (absl::Status status = CheckClientHandle(handle); !status.ok()) {
    replier.Fail(status);
    return;
  }
  Strides strides = ParseStrides(request);
  if (strides.has_value() && strides->empty()) strides.reset();
  const ArrayId array{request.array_handle()};
  // Strings count once they are here.
  const absl::StatusOr<ArraySpec> spec = state.session.Spec(array);
  const bool sized = spec.ok() && spec->shape.dtype != DType::kString;
  DownloadRoom::Place place = state.buffers->room().Take(sized ? spec->shape.host_bytes() : 0);
  state.session.Read(array, std::move(strides),
                     [replier, buffers = state.buffers, handle,
                      place = std::move(place)](absl::StatusOr<std::vector<HostBuffer::Chunk>> chunks) {
                       // The bytes are in place before the client is told to fetch them.
                       absl::Status status = chunks.ok() ? buffers->Put(handle, *std::move(chunks)) : chunks.status();
                       IfrtResponse response;
                       response.mutable_copy_to_host_buffer_response();
                       replier.Done(status, std::move(response));
                     });
}

}  // namespace switchtower
