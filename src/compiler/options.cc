#include "compiler/options.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include "base/log.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

// Fields of xla.DebugOptions whose value is text, a list or a map, and that are passed on. All others of that
// kind are paths, file patterns, text for other tools' command lines, or choose XLA's passes, on some of which it
// relies that programs stay inside their buffers (layout assignment, dynamic padding).
constexpr std::array<int, 11> kKeptTextOptions = {
    258,  // xla_gpu_enable_command_buffer
    289,  // xla_gpu_disable_async_collectives
    333,  // xla_cpu_max_isa
    357,  // xla_gpu_analytical_latency_estimator_options
    399,  // xla_cpu_experimental_onednn_fusion_type
    400,  // xla_cpu_experimental_xnn_fusion_type
    422,  // xla_cpu_experimental_ynn_fusion_type
    442,  // xla_gpu_experimental_autotune_backends
    451,  // xla_gpu_execution_terminate_timeout
    468,  // xla_gpu_collectives_implementation
    497,  // xla_gpu_enable_collectives_command_buffer_filter
};

// Switches of xla.DebugOptions that make XLA write files (or its standard output).
constexpr std::array<int, 13> kDroppedSwitches = {
    112,  // xla_dump_hlo_as_text
    113,  // xla_dump_hlo_as_proto
    114,  // xla_dump_hlo_as_dot
    115,  // xla_dump_hlo_as_url
    116,  // xla_dump_hlo_as_html
    118,  // xla_dump_hlo_snapshots
    149,  // xla_dump_fusion_visualization
    155,  // xla_gpu_dump_llvmir
    164,  // xla_dump_hlo_as_long_text
    182,  // xla_dump_latency_hiding_schedule
    405,  // xla_dump_hlo_unoptimized_snapshots
    427,  // xla_gpu_experimental_dump_gpu_executable
    498,  // xla_dump_hlo_as_riegeli
};

// Of the kept ones, the map: each client process sends its entries in another order.
constexpr int kMapOption = 357;

template <typename Array>
bool Contains(const Array& array, int value) {
  return std::find(array.begin(), array.end(), value) != array.end();
}

// DebugOptions has no fields of ours, so all that the client sent is in the unknown fields. The map's entries are
// sorted, since a program's name in the cache is the hash of these bytes too.
void FilterDebugOptions(xla::DebugOptions& debug) {
  using google::protobuf::UnknownField;
  google::protobuf::UnknownFieldSet kept;
  std::set<std::string> map_entries;
  const auto& sent = debug.GetReflection()->GetUnknownFields(debug);
  for (int i = 0; i < sent.field_count(); ++i) {
    const UnknownField& field = sent.field(i);
    if (field.type() == UnknownField::TYPE_GROUP) continue;
    if (field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      if (!Contains(kKeptTextOptions, field.number())) {
        if (field.GetLengthDelimitedSize() > 0) {
          LogDebug("dropped compiler flag number {} of a client", field.number());
        }
        continue;
      }
    } else if (Contains(kDroppedSwitches, field.number())) {
      continue;
    }
    if (field.type() == UnknownField::TYPE_LENGTH_DELIMITED && field.number() == kMapOption) {
      map_entries.insert(field.length_delimited());
    } else {
      kept.AddField(field);
    }
  }
  for (const std::string& entry : map_entries) kept.AddLengthDelimited(kMapOption, entry);
  debug.GetReflection()->MutableUnknownFields(&debug)->Swap(&kept);
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Options that the user named (`compiler_options=`) are checked by name; the plug-in checks the rest.
absl::Status CheckOverrides(const xla::CompileOptionsProto& options) {
  for (const auto& [name, value] : options.env_option_overrides()) {
    for (std::string_view end : {"_to", "_path", "_dir", "_file", "_filename", "_from", "_flags", "_extra_options",
                                 "_hlo_passes", "_hlo_passes_only"}) {
      if (EndsWith(name, end)) {
        return absl::InvalidArgumentError(
            fmt::format("compiler option '{}' isn't allowed: it names files or command lines of the machine that "
                        "compiles, or chooses XLA's passes",
                        name));
      }
    }
    if (value.value_case() == xla::OptionOverrideProto::VALUE_NOT_SET) {
      return absl::InvalidArgumentError(fmt::format("compiler option '{}' has no value", name));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDevices(const xla::ExecutableBuildOptionsProto& build, ClientOptions& client) {
  if (!build.has_device_assignment()) {
    if (client.num_partitions == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("a program of {} partitions came without a device assignment", client.num_partitions));
  }
  const xla::DeviceAssignmentProto& assignment = build.device_assignment();
  if (assignment.replica_count() != 1 || assignment.computation_count() != client.num_partitions ||
      assignment.computation_devices_size() != client.num_partitions) {
    return absl::InvalidArgumentError(
        fmt::format("the device assignment is for {} replicas and {} partitions, the program for 1 and {}",
                    assignment.replica_count(), assignment.computation_count(), client.num_partitions));
  }
  std::set<int64_t> seen;
  for (const auto& computation : assignment.computation_devices()) {
    if (computation.replica_device_ids_size() != 1) {
      return absl::InvalidArgumentError("the device assignment doesn't name one device for each partition");
    }
    const int64_t id = computation.replica_device_ids(0);
    if (!seen.insert(id).second) {
      return absl::InvalidArgumentError(fmt::format("device {} is twice in the device assignment", id));
    }
    client.device_ids.push_back(id);
  }
  return absl::OkStatus();
}

std::string Serialise(const xla::CompileOptionsProto& options) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    options.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// What both portable compiles have in common.
void MakePortable(xla::CompileOptionsProto& options) {
  options.set_compile_portable_executable(true);
  xla::ExecutableBuildOptionsProto& build = *options.mutable_executable_build_options();
  build.clear_device_assignment();
  build.set_device_ordinal(-1);
  build.set_num_replicas(1);
  build.set_num_partitions(1);
}

}  // namespace

absl::StatusOr<ClientOptions> ParseClientOptions(std::string_view serialised) {
  ClientOptions client;
  xla::CompileOptionsProto& options = client.options;
  if (!options.ParseFromArray(serialised.data(), static_cast<int>(serialised.size()))) {
    return absl::InvalidArgumentError("the compile options aren't a CompileOptionsProto");
  }
  if (options.parameter_is_tupled_arguments()) {
    return absl::UnimplementedError("programs that take their arguments as one tuple aren't supported");
  }
  RETURN_IF_ERROR(CheckOverrides(options));
  xla::ExecutableBuildOptionsProto& build = *options.mutable_executable_build_options();
  if (build.num_replicas() > 1) {
    return absl::UnimplementedError(fmt::format(
        "programs of several replicas ({}) aren't supported: use partitions (jit, shard_map)", build.num_replicas()));
  }
  if (build.use_auto_spmd_partitioning()) {
    return absl::UnimplementedError("automatic SPMD partitioning (auto sharding) isn't supported");
  }
  const int64_t partitions = std::max<int64_t>(build.num_partitions(), 1);
  if (partitions > INT32_MAX) return absl::InvalidArgumentError(fmt::format("{} partitions can't be", partitions));
  client.num_partitions = static_cast<int32_t>(partitions);
  RETURN_IF_ERROR(ReadDevices(build, client));

  // From here on only what the result depends on.
  // Absent flags are XLA's defaults; an empty message would be zero for each of them.
  if (build.has_debug_options()) FilterDebugOptions(*build.mutable_debug_options());
  build.clear_device_assignment();
  build.set_device_ordinal(-1);
  build.set_num_replicas(1);
  build.set_num_partitions(partitions);
  build.set_run_backend_only(false);
  build.clear_process_index();
  build.clear_process_count();
  build.clear_slice_size();
  options.clear_serialized_multi_slice_config();
  options.clear_compile_portable_executable();
  options.clear_allow_in_place_mlir_modification();
  return client;
}

absl::Status CheckPartitions(const ClientOptions& client) {
  if (client.num_partitions <= kMaxPartitions) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("a program of {} partitions can't be compiled: XLA's CPU compiler takes at most {}",
                  client.num_partitions, kMaxPartitions));
}

std::string CanonicalBytes(const ClientOptions& client) { return Serialise(client.options); }

std::string CaptureOptions(const ClientOptions& client) {
  xla::CompileOptionsProto options = client.options;
  xla::ExecutableBuildOptionsProto& build = *options.mutable_executable_build_options();
  xla::DeviceAssignmentProto& assignment = *build.mutable_device_assignment();
  assignment.set_replica_count(1);
  assignment.set_computation_count(client.num_partitions);
  for (int32_t rank = 0; rank < client.num_partitions; ++rank) {
    assignment.add_computation_devices()->add_replica_device_ids(rank);
  }
  return Serialise(options);
}

std::string SinglePassOptions(const ClientOptions& client) {
  xla::CompileOptionsProto options = client.options;
  MakePortable(options);
  return Serialise(options);
}

std::string BackendOptions(const ClientOptions& client, const xla::ProgramShapeProto& shapes) {
  xla::CompileOptionsProto options = client.options;
  MakePortable(options);
  *options.mutable_argument_layouts() = shapes.parameters();
  xla::ExecutableBuildOptionsProto& build = *options.mutable_executable_build_options();
  *build.mutable_result_layout() = shapes.result();
  build.set_run_backend_only(true);
  build.set_use_spmd_partitioning(false);
  build.set_use_shardy_partitioner(false);
  build.clear_allow_spmd_sharding_propagation_to_output();
  build.clear_allow_spmd_sharding_propagation_to_parameters();
  return Serialise(options);
}

}  // namespace switchtower
