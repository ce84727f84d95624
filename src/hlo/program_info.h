// Describes a captured program to the rest of Switchtower: what goes in, what comes out, what may be donated.
//
// Place:    hlo; CompilePipeline calls it on the captured module, before lowering strips the shardings.
// Threads:  pure function.
// Errors:   InvalidArgument: shapes and shardings contradict each other. Unimplemented: tuples as parameters,
//           nested tuples as results, dynamic or tiled shapes, unknown memory spaces.
#pragma once

#include "absl/status/statusor.h"
#include "types/program.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// Fills name, source, num_partitions, parameters, results and donatable_parameters; the other fields are known
// only later. A result that isn't a tuple is one result; the empty tuple is none.
absl::StatusOr<ProgramInfo> DescribeProgram(const xla::HloModuleProto& module, int num_partitions);

}  // namespace switchtower
