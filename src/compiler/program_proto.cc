#include "compiler/program_proto.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace switchtower {
namespace {

compiler::ProgramShape ToProto(const Shape& shape) {
  compiler::ProgramShape proto;
  proto.set_dtype(static_cast<int32_t>(shape.dtype));
  proto.mutable_dims()->Add(shape.dims.begin(), shape.dims.end());
  return proto;
}

absl::StatusOr<Shape> FromProto(const compiler::ProgramShape& proto) {
  Shape shape;
  shape.dtype = static_cast<DType>(proto.dtype());
  shape.dims.assign(proto.dims().begin(), proto.dims().end());
  RETURN_IF_ERROR(ValidateShape(shape));
  return shape;
}

compiler::ProgramValue ToProto(const ProgramValue& value) {
  compiler::ProgramValue proto;
  *proto.mutable_shape() = ToProto(value.shape);
  *proto.mutable_shard_shape() = ToProto(value.shard_shape);
  proto.mutable_minor_to_major()->Add(value.layout.minor_to_major.begin(), value.layout.minor_to_major.end());
  proto.set_op_sharding(value.op_sharding);
  proto.set_memory_kind(value.memory_kind);
  return proto;
}

bool IsPermutation(const std::vector<int64_t>& order, int rank) {
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (static_cast<int>(sorted.size()) != rank) return false;
  for (int i = 0; i < rank; ++i) {
    if (sorted[i] != i) return false;
  }
  return true;
}

absl::StatusOr<ProgramValue> FromProto(const compiler::ProgramValue& proto) {
  ProgramValue value;
  ASSIGN_OR_RETURN(value.shape, FromProto(proto.shape()));
  ASSIGN_OR_RETURN(value.shard_shape, FromProto(proto.shard_shape()));
  if (value.shape.rank() != value.shard_shape.rank() || value.shape.dtype != value.shard_shape.dtype) {
    return absl::InvalidArgumentError("a program's shard shape doesn't fit its shape");
  }
  value.layout.minor_to_major.assign(proto.minor_to_major().begin(), proto.minor_to_major().end());
  if (!IsPermutation(value.layout.minor_to_major, value.shard_shape.rank())) {
    return absl::InvalidArgumentError("a program's layout is no permutation of its dimensions");
  }
  value.op_sharding = proto.op_sharding();
  value.memory_kind = proto.memory_kind();
  return value;
}

compiler::MemoryStats ToProto(const MemoryStats& stats) {
  compiler::MemoryStats proto;
  proto.set_generated_code(stats.generated_code);
  proto.set_arguments(stats.arguments);
  proto.set_outputs(stats.outputs);
  proto.set_alias(stats.alias);
  proto.set_temporaries(stats.temporaries);
  proto.set_peak(stats.peak);
  proto.set_host_arguments(stats.host_arguments);
  proto.set_host_outputs(stats.host_outputs);
  proto.set_host_temporaries(stats.host_temporaries);
  return proto;
}

absl::StatusOr<MemoryStats> FromProto(const compiler::MemoryStats& proto) {
  MemoryStats stats;
  stats.generated_code = proto.generated_code();
  stats.arguments = proto.arguments();
  stats.outputs = proto.outputs();
  stats.alias = proto.alias();
  stats.temporaries = proto.temporaries();
  stats.peak = proto.peak();
  stats.host_arguments = proto.host_arguments();
  stats.host_outputs = proto.host_outputs();
  stats.host_temporaries = proto.host_temporaries();
  // Devices are charged with some of these; less than nothing would be room that isn't there.
  for (int64_t bytes : {stats.generated_code, stats.arguments, stats.outputs, stats.alias, stats.temporaries,
                        stats.peak, stats.host_arguments, stats.host_outputs, stats.host_temporaries}) {
    if (bytes < 0) return absl::InvalidArgumentError("a program needs less memory than none");
  }
  return stats;
}

compiler::ProgramInfo ToProto(const ProgramInfo& info) {
  compiler::ProgramInfo proto;
  proto.set_name(info.name);
  proto.set_fingerprint(info.fingerprint);
  proto.set_num_partitions(info.num_partitions);
  for (const ProgramValue& value : info.parameters) *proto.add_parameters() = ToProto(value);
  for (const ProgramValue& value : info.results) *proto.add_results() = ToProto(value);
  proto.mutable_donatable_parameters()->Add(info.donatable_parameters.begin(), info.donatable_parameters.end());
  for (const CollectiveSite& site : info.collectives) {
    compiler::CollectiveSite* out = proto.add_collectives();
    out->set_op_id(site.op_id);
    out->set_kind(site.kind);
    out->set_name(site.name);
    out->set_source(site.source);
  }
  *proto.mutable_memory() = ToProto(info.memory);
  for (const auto& [name, cost] : info.costs) (*proto.mutable_costs())[name] = cost;
  proto.set_source(info.source);
  proto.mutable_host_callbacks()->Add(info.host_callbacks.begin(), info.host_callbacks.end());
  return proto;
}

absl::StatusOr<ProgramInfo> FromProto(const compiler::ProgramInfo& proto) {
  ProgramInfo info;
  info.name = proto.name();
  info.fingerprint = proto.fingerprint();
  info.num_partitions = proto.num_partitions();
  if (info.num_partitions < 1) return absl::InvalidArgumentError("a program has no partitions");
  for (const auto& value : proto.parameters()) {
    ASSIGN_OR_RETURN(ProgramValue parameter, FromProto(value));
    info.parameters.push_back(std::move(parameter));
  }
  for (const auto& value : proto.results()) {
    ASSIGN_OR_RETURN(ProgramValue result, FromProto(value));
    info.results.push_back(std::move(result));
  }
  std::vector<bool> donated(proto.parameters_size(), false);
  for (int32_t parameter : proto.donatable_parameters()) {
    if (parameter < 0 || parameter >= proto.parameters_size()) {
      return absl::InvalidArgumentError("a program donates a parameter that it doesn't have");
    }
    if (donated[parameter]) return absl::InvalidArgumentError("a program donates a parameter twice");
    donated[parameter] = true;
    info.donatable_parameters.push_back(parameter);
  }
  for (const auto& site : proto.collectives()) {
    info.collectives.push_back({site.op_id(), site.kind(), site.name(), site.source()});
  }
  ASSIGN_OR_RETURN(info.memory, FromProto(proto.memory()));
  info.costs.insert(proto.costs().begin(), proto.costs().end());
  info.source = proto.source();
  info.host_callbacks.assign(proto.host_callbacks().begin(), proto.host_callbacks().end());
  return info;
}

}  // namespace

compiler::CompiledProgram ToProto(const CompiledProgram& program) {
  compiler::CompiledProgram proto;
  proto.set_hash(program.id.hash);
  *proto.mutable_info() = ToProto(program.info);
  proto.set_executable(program.executable);
  proto.set_hlo_text(program.hlo_text);
  return proto;
}

absl::StatusOr<CompiledProgram> FromProto(compiler::CompiledProgram&& proto) {
  CompiledProgram program;
  program.id.hash = proto.hash();
  ASSIGN_OR_RETURN(program.info, FromProto(proto.info()));
  program.executable = std::move(*proto.mutable_executable());
  program.hlo_text = std::move(*proto.mutable_hlo_text());
  return program;
}

absl::StatusOr<CompiledProgram> ProgramOf(compiler::CompileAnswer&& answer, const ProgramId& id) {
  ASSIGN_OR_RETURN(CompiledProgram program, FromProto(std::move(*answer.mutable_program())));
  if (program.id != id) return absl::FailedPreconditionError("the compiler answered for another program");
  return program;
}

}  // namespace switchtower
