#include "controller/graph/put_requests.h"

#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::StatusOr<PutOp> BuildPut(ArrayId result, const ArrayInfo& info, std::vector<HostShard> shards) {
  const int count = info.spec.sharding.num_shards();
  PutOp put;
  put.array = result;
  put.devices = info.devices;
  put.memory_kind = info.spec.sharding.memory_kind;
  std::vector<bool> covered(count, false);
  for (HostShard& shard : shards) {
    if (shard.buffer == nullptr) return absl::InvalidArgumentError("a shard without a host buffer");
    if (shard.shard_positions.empty()) continue;
    PutOp::Shard part;
    for (size_t i = 0; i < shard.shard_positions.size(); ++i) {
      const int32_t position = shard.shard_positions[i];
      if (position < 0 || position >= count || covered[position]) {
        return absl::InvalidArgumentError(
            fmt::format("shard {} of an array with {} shards is out of range or given twice", position, count));
      }
      covered[position] = true;
      ASSIGN_OR_RETURN(Shape shape, ShardShape(info.spec.sharding, info.spec.shape, position));
      if (i == 0) {
        part.shape = std::move(shape);
      } else if (shape != part.shape) {
        return absl::InvalidArgumentError(
            fmt::format("one host buffer can't be both shard {} and shard {}: their shapes differ",
                        shard.shard_positions[0], position));
      }
      part.places.push_back(info.devices->places[position]);
    }
    ASSIGN_OR_RETURN(part.bytes, HostBufferBytes(part.shape, shard.byte_strides));
    part.byte_strides = std::move(shard.byte_strides);
    part.buffer = std::move(shard.buffer);
    put.shards.push_back(std::move(part));
  }
  for (int position = 0; position < count; ++position) {
    if (!covered[position]) {
      return absl::InvalidArgumentError(fmt::format("no host buffer for shard {} of {}", position, count));
    }
  }
  put.layout = info.spec.layout.value_or(Layout::Default(info.spec.shape.rank()));
  return put;
}

}  // namespace

absl::StatusOr<int64_t> HostBufferBytes(const Shape& shape, const std::optional<std::vector<int64_t>>& byte_strides) {
  if (shape.dtype == DType::kString) return -1;
  if (!byte_strides.has_value()) return shape.host_bytes();
  if (byte_strides->size() != shape.dims.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} byte strides for shape {}", byte_strides->size(), shape.ToString()));
  }
  if (shape.elements() == 0) return 0;
  int64_t bytes = HostBytes(shape.dtype);
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    if (shape.dims[d] == 1) continue;  // a stride that takes no step may be anything
    const int64_t stride = (*byte_strides)[d];
    int64_t extent = 0;
    if (stride < 0 || __builtin_mul_overflow(stride, shape.dims[d] - 1, &extent) ||
        __builtin_add_overflow(bytes, extent, &bytes)) {
      return absl::InvalidArgumentError(fmt::format("byte stride {} of dimension {} can't be used", stride, d));
    }
  }
  return bytes;
}

absl::Status MakeArrayFromHost(SessionContext& session, ArrayId result, const ArraySpec& spec,
                               std::vector<HostShard> shards, uint64_t user_context) {
  RETURN_IF_ERROR(session.arrays.CheckFree(result));
  const auto make = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(ArrayInfoPtr info, session.devices.Describe(spec));
    const LossLedger::Stamp stamp = session.now();
    RETURN_IF_ERROR(session.arrays.losses().Check(info->devices->seats, stamp));
    ASSIGN_OR_RETURN(PutOp put, BuildPut(result, *info, std::move(shards)));
    RETURN_IF_ERROR(session.arrays.Bind(result, std::move(info), stamp, user_context));
    session.Submit(std::move(put), stamp, user_context);
    return absl::OkStatus();
  };
  absl::Status status = make();
  return status.ok() ? status : session.BindErrors({&result, 1}, std::move(status), user_context);
}

}  // namespace switchtower
