// A compiled program as values: what the controller must know to place it and answer the client, and
// what a worker must know to run it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "types/ids.h"
#include "types/shape.h"

namespace switchtower {

// One parameter or result of a program over N partitions (ranks 0..N-1).
struct ProgramValue {
  Shape shape;              // GLOBAL shape
  Shape shard_shape;        // what each rank holds
  Layout layout;            // of the shard
  std::string op_sharding;  // serialised xla.OpSharding; empty: none was given (one partition)
  std::string memory_kind;  // "device", "pinned_host", "unpinned_host"
};

struct MemoryStats {  // bytes, for each device
  int64_t generated_code = 0, arguments = 0, outputs = 0, alias = 0, temporaries = 0, peak = 0;
  int64_t host_arguments = 0, host_outputs = 0, host_temporaries = 0;
};

// One collective of the program, by the op id that the lowered custom call carries.
struct CollectiveSite {
  uint32_t op_id = 0;
  std::string kind;    // "all-reduce", ...
  std::string name;    // HLO instruction name
  std::string source;  // "file.py:123" from the HLO metadata, may be empty
};

struct ProgramInfo {
  std::string name;         // HLO module name, "jit_step"
  std::string fingerprint;  // as told to the client
  int32_t num_partitions = 1;
  std::vector<ProgramValue> parameters;
  std::vector<ProgramValue> results;
  std::vector<int32_t> donatable_parameters;  // parameters that some result may alias, ascending
  std::vector<CollectiveSite> collectives;
  std::vector<uint64_t> host_callbacks;  // functions in the client that it may call, ascending
  MemoryStats memory;
  // XLA's own cost analysis of the partitioned module: "flops", "bytes accessed", ... (what jax prints).
  std::map<std::string, double> costs;
  std::string source;  // "file.py:123" of the entry, for people
};

struct CompiledProgram {
  ProgramId id;
  ProgramInfo info;
  std::string executable;  // PJRT_Executable_Serialize: portable, one partition; runs on any device of the type
  std::string hlo_text;    // optimised HLO module, human readable (compiled.as_text())
};

}  // namespace switchtower
