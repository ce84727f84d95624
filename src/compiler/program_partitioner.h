// How a platform turns StableHLO of N partitions into one portable executable that any rank runs.
//
// Platforms differ in how they partition and in which collectives stay native, so this is theirs; what a
// partitioned module has to become (`lower`) is the pipeline's.
//
// Place:    compiler; used by CompilePipeline. Implementations: CpuPartitioner.
// Threads:  any, several calls at once included.
// Errors:   the plug-in's for a program that it refuses; otherwise the status that `lower` returned, as it was.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "compiler/options.h"
#include "pjrt/executable.h"

namespace switchtower {

class ProgramPartitioner {
 public:
  // Gets the partitioned, optimised and scheduled module, a serialised xla.HloModuleProto; called once on the
  // calling thread. Returns what to generate code from, or nullopt for the module as it is.
  using Lower = absl::FunctionRef<absl::StatusOr<std::optional<std::string>>(std::string_view module)>;

  virtual ~ProgramPartitioner() = default;
  virtual absl::StatusOr<pjrt::LoadedExecutable> Compile(std::string_view module, const ClientOptions& options,
                                                         Lower lower) = 0;
};

}  // namespace switchtower
