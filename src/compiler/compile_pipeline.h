// One program, from StableHLO to CompiledProgram.
//
// Place:    compiler; in a compiler process, used by CompilerMain.
// Threads:  any, several calls at once included.
// Lifetime: the partitioner outlives it.
// Errors:   InvalidArgument and Unimplemented for the program's own faults, with the guilty operation's name;
//           otherwise the plug-in's (AsCompileError makes them fit for clients).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/program_partitioner.h"
#include "types/ids.h"
#include "types/program.h"

namespace switchtower {

class CompilePipeline {
 public:
  // `custom_call_targets`: what programs may call besides XLA's built-in targets, because workers have it.
  explicit CompilePipeline(ProgramPartitioner& partitioner, std::vector<std::string> custom_call_targets = {})
      : partitioner_(partitioner), custom_call_targets_(std::move(custom_call_targets)) {}

  absl::StatusOr<CompiledProgram> Compile(const ProgramId& id, std::string_view module, std::string_view options);

 private:
  absl::StatusOr<std::optional<std::string>> Lower(std::string_view module, int32_t num_partitions,
                                                   CompiledProgram& program);

  ProgramPartitioner& partitioner_;
  const std::vector<std::string> custom_call_targets_;
};

}  // namespace switchtower
