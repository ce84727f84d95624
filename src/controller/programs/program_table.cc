#include "controller/programs/program_table.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

std::vector<uint64_t> Numbers(const std::vector<DeviceId>& devices) {
  std::vector<uint64_t> numbers;
  for (DeviceId device : devices) numbers.push_back(device.value);
  return numbers;
}

}  // namespace

absl::Status ExecutableTable::Entry::CheckArgument(size_t index, const ArrayInfoPtr& array) {
  std::array<ArrayInfoPtr, 2>& accepted = accepted_[index];
  if (accepted[0] == array || accepted[1] == array) return absl::OkStatus();
  RETURN_IF_ERROR(CheckInFull(index, *array));
  accepted[1] = std::move(accepted[0]);
  accepted[0] = array;
  return absl::OkStatus();
}

absl::Status ExecutableTable::Entry::CheckInFull(size_t index, const ArrayInfo& array) const {
  const ProgramInfo& info = placed_->program->info;
  const ProgramValue& parameter = info.parameters[index];
  const Sharding& sharding = array.spec.sharding;
  // Lists of one session are shared, so that equal lists are one object.
  if (array.devices != placed_->devices) {
    return absl::InvalidArgumentError(
        fmt::format("{}: argument {} ({}) is on devices [{}], but the program runs on [{}], in this order", info.name,
                    index, array.spec.shape.ToString(), fmt::join(Numbers(sharding.devices), ","),
                    fmt::join(Numbers(placed_->device_ids), ",")));
  }
  const int shards = sharding.kind == Sharding::Kind::kReplicated ? 1 : sharding.num_shards();
  for (int i = 0; i < shards; ++i) {
    ASSIGN_OR_RETURN(Shape shard, ShardShape(sharding, array.spec.shape, i));
    if (shard != parameter.shard_shape) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: argument {} ({}) has a shard {} on device {}, but the program takes {} there", info.name, index,
          array.spec.shape.ToString(), shard.ToString(), sharding.devices[i].value, parameter.shard_shape.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ExecutableTable::Entry*> ExecutableTable::Find(uint64_t handle) {
  auto it = entries_.find(handle);
  if (it == entries_.end()) {
    return absl::InvalidArgumentError(fmt::format("executable handle {} isn't known", handle));
  }
  return &it->second;
}

absl::Status ExecutableTable::Erase(uint64_t handle) {
  RETURN_IF_ERROR(Find(handle).status());
  entries_.erase(handle);
  return absl::OkStatus();
}

}  // namespace switchtower
