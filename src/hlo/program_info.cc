#include "hlo/program_info.h"

#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/check_module.h"
#include "hlo/element_type.h"
#include "hlo/host_callbacks.h"
#include "hlo/shard_counts.h"
#include "hlo/source_location.h"
#include "types/token_array.h"

namespace switchtower {
namespace {

// An xla.OpSharding whose field 1, type, is REPLICATED and there.
const std::string kReplicatedBytes("\x08\x00", 2);

absl::Status Bad(std::string what) { return absl::InvalidArgumentError(std::move(what)); }

// Numbers of XLA's memory spaces.
absl::StatusOr<std::string> MemoryKindOf(const xla::ShapeProto& shape) {
  switch (shape.layout().memory_space()) {
    case 0:
      return std::string("device");
    case 5:
      return std::string("pinned_host");
    case 6:
      return std::string("unpinned_host");
    default:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("memory space ", shape.layout().memory_space(), " isn't known"));
}

absl::StatusOr<Shape> Enlarged(Shape shape, const std::vector<int64_t>& counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (shape.dims[i] > std::numeric_limits<int64_t>::max() / counts[i]) return Bad("a global shape is too large");
    shape.dims[i] *= counts[i];
  }
  RETURN_IF_ERROR(ValidateShape(shape));
  return shape;
}

// `sharding` is null if the program says nothing.
absl::StatusOr<ProgramValue> DescribeValue(const xla::ShapeProto& proto, const xla::OpSharding* sharding,
                                           int num_partitions) {
  ProgramValue value;
  ASSIGN_OR_RETURN(value.shard_shape, ShapeOf(proto));
  if (value.shard_shape.dtype == DType::kToken) {
    value.shape = value.shard_shape = TokenArray();
    value.layout = Layout::Default(value.shape.rank());
    value.memory_kind = "device";
    if (sharding != nullptr) value.op_sharding = kReplicatedBytes;
    return value;
  }
  ASSIGN_OR_RETURN(value.layout, LayoutOf(proto));
  ASSIGN_OR_RETURN(value.memory_kind, MemoryKindOf(proto));
  value.shape = value.shard_shape;
  if (sharding == nullptr) return value;
  ASSIGN_OR_RETURN(const xla::OpSharding tiles, AsTileSharding(*sharding, num_partitions));
  ASSIGN_OR_RETURN(const auto counts, ShardCounts(tiles, value.shard_shape.rank(), num_partitions));
  ASSIGN_OR_RETURN(value.shape, Enlarged(std::move(value.shape), counts));
  value.op_sharding = tiles.SerializeAsString();
  // "Replicated" is the message without any field; no bytes at all would mean "not given".
  if (value.op_sharding.empty()) value.op_sharding = kReplicatedBytes;
  return value;
}

absl::Status DescribeParameters(const xla::HloModuleProto& module, ProgramInfo& info) {
  const auto& shapes = module.host_program_shape().parameters();
  const int shardings = module.spmd_parameters_shardings_size();
  if (shardings != 0 && shardings != shapes.size()) return Bad("parameters and their shardings differ in number");
  for (int i = 0; i < shapes.size(); ++i) {
    auto value = DescribeValue(shapes.Get(i), shardings == 0 ? nullptr : &module.spmd_parameters_shardings(i),
                               info.num_partitions);
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          absl::StrCat("parameter ", i, ": ", std::string(value.status().message())));
    }
    info.parameters.push_back(*std::move(value));
  }
  return absl::OkStatus();
}

// A tuple's sharding names one for each leaf; any other sharding goes for all leaves.
absl::StatusOr<const xla::OpSharding*> ResultSharding(const xla::HloModuleProto& module, int i, int results) {
  if (!module.has_spmd_output_sharding()) return static_cast<const xla::OpSharding*>(nullptr);
  const xla::OpSharding& sharding = module.spmd_output_sharding();
  if (sharding.type() != xla::OpSharding::TUPLE) return &sharding;
  if (sharding.tuple_shardings_size() != results) return Bad("results and their shardings differ in number");
  return &sharding.tuple_shardings(i);
}

absl::Status DescribeResults(const xla::HloModuleProto& module, ProgramInfo& info) {
  const xla::ShapeProto& result = module.host_program_shape().result();
  const bool is_tuple = result.element_type() == xla::TUPLE;
  const int count = is_tuple ? result.tuple_shapes_size() : 1;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const xla::OpSharding* sharding, ResultSharding(module, i, count));
    auto value = DescribeValue(is_tuple ? result.tuple_shapes(i) : result, sharding, info.num_partitions);
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          absl::StrCat("result ", i, ": ", std::string(value.status().message())));
    }
    info.results.push_back(*std::move(value));
  }
  return absl::OkStatus();
}

// What a launch consumes. XLA has turned the donors that it found a use for into aliases; a donor that is left is only
// read, and the client keeps it.
absl::Status DescribeDonation(const xla::HloModuleProto& module, ProgramInfo& info) {
  std::set<int64_t> parameters;
  for (const auto& entry : module.input_output_alias().entries()) parameters.insert(entry.parameter_number());
  for (int64_t parameter : parameters) {
    if (parameter < 0 || parameter >= static_cast<int64_t>(info.parameters.size())) {
      return Bad(absl::StrCat("parameter ", parameter, " is donated but doesn't exist"));
    }
    info.donatable_parameters.push_back(static_cast<int32_t>(parameter));
  }
  return absl::OkStatus();
}

// The root's line; else the first that the entry computation knows.
std::string EntrySource(const xla::HloModuleProto& module) {
  std::string first;
  for (const auto& computation : module.computations()) {
    if (computation.id() != module.entry_computation_id()) continue;
    for (const auto& instruction : computation.instructions()) {
      std::string source = SourceOf(module, instruction.metadata());
      if (source.empty()) continue;
      if (instruction.id() == computation.root_id()) return source;
      if (first.empty()) first = std::move(source);
    }
  }
  return first;
}

}  // namespace

absl::StatusOr<ProgramInfo> DescribeProgram(const xla::HloModuleProto& module, int num_partitions) {
  if (num_partitions < 1 || num_partitions > kMaxProgramPartitions) {
    return Bad(absl::StrCat("a program may have 1 to ", kMaxProgramPartitions, " partitions"));
  }
  ProgramInfo info;
  info.name = module.name();
  info.num_partitions = num_partitions;
  info.source = EntrySource(module);
  RETURN_IF_ERROR(DescribeParameters(module, info));
  RETURN_IF_ERROR(DescribeResults(module, info));
  RETURN_IF_ERROR(DescribeDonation(module, info));
  info.host_callbacks = HostCallbacksIn(module);
  return info;
}

}  // namespace switchtower
