// Programs and options for the tests of this folder.
//
// Place:    compiler; tests only.
#pragma once

#include <string>
#include <utility>

#include "types/program.h"
#include "xla/pjrt/proto/compile_options.pb.h"

namespace switchtower {

inline std::string HashOf(char digit) { return std::string(32, digit); }

inline CompiledProgram TestProgram(const std::string& hash, size_t executable_bytes = 1000) {
  CompiledProgram program;
  program.id.hash = hash;
  program.info.name = "jit_f";
  program.info.fingerprint = hash;
  program.info.num_partitions = 4;
  ProgramValue value;
  value.shape = {DType::kF32, {8, 3}};
  value.shard_shape = {DType::kF32, {2, 3}};
  value.layout = {{0, 1}};
  value.op_sharding = std::string("\x01\x02\x00", 3);
  value.memory_kind = "device";
  program.info.parameters = {value, value};
  program.info.results = {value};
  program.info.donatable_parameters = {1};
  program.info.collectives = {{7, "all-reduce", "all-reduce.3", "train.py:12"}};
  program.info.memory.temporaries = 4096;
  program.info.costs = {{"flops", 12.5}};
  program.info.source = "train.py:1";
  // Doesn't compress, so that sizes on disk are what tests think.
  program.executable.resize(executable_bytes);
  uint64_t state = 88172645463325252ULL + static_cast<uint64_t>(hash[0]);
  for (char& c : program.executable) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    c = static_cast<char>(state >> 32);
  }
  program.hlo_text = "HloModule jit_f";
  return program;
}

// As jax makes them for `partitions` partitions on devices first, first + 1, ...
inline xla::CompileOptionsProto TestOptions(int partitions, int64_t first = 0) {
  xla::CompileOptionsProto options;
  xla::ExecutableBuildOptionsProto& build = *options.mutable_executable_build_options();
  build.set_device_ordinal(-1);
  build.set_num_replicas(1);
  build.set_num_partitions(partitions);
  build.set_use_spmd_partitioning(true);
  build.set_use_shardy_partitioner(true);
  build.mutable_device_assignment()->set_replica_count(1);
  build.mutable_device_assignment()->set_computation_count(partitions);
  for (int i = 0; i < partitions; ++i) {
    build.mutable_device_assignment()->add_computation_devices()->add_replica_device_ids(first + i);
  }
  return options;
}

}  // namespace switchtower
