// What one execution of a partitioned program costs one rank, estimated from its operations: what
// compiled.cost_analysis() shows.
//
// Stands in for the plug-in's own analysis, which XLA's CPU plug-in doesn't offer. The rules are the usual ones: a
// multiply-add is two operations, a loop's body counts once, of a conditional's branches the dearest counts, inside
// a fusion only arithmetic counts and outside it only the bytes at its border.
//
// Place:    compiler; CompilePipeline calls it on the captured module.
// Threads:  pure function.
// Errors:   those of ModuleIndex for a module whose references don't hold.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// "flops", "transcendentals", "bytes accessed" and "bytes accessedout{}".
absl::StatusOr<std::map<std::string, double>> EstimateCosts(const xla::HloModuleProto& module);

}  // namespace switchtower
