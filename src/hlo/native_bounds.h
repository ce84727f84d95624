// What XLA's CPU backend takes on trust and a client could use to reach outside its buffers.
//
// Its code reads and writes what shapes say, and XLA checks those of each operation; but TopK is a custom call, whose
// shapes nobody checks, and std::sort runs past the ends of its range when the comparator is no order.
// std::stable_sort doesn't, as long as the comparator gives the same answer for the same values: it can't hold state,
// since random state and calls out of a comparator aren't compiled. TopK counts positions in 32 bits.
//
// Place:    hlo; CheckModule and CompilePipeline use it.
// Threads:  pure functions.
// Errors:   InvalidArgument, with what is wrong.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// f32[n] -> (f32[k], s32[k]) or f32[b, n] -> (f32[b, k], s32[b, k]), 0 < k <= n < 2^31: what XLA itself makes of top_k.
absl::Status CheckTopK(const xla::HloInstructionProto& call,
                       const std::vector<const xla::HloInstructionProto*>& operands);

// True if one wasn't.
bool MakeSortsStable(xla::HloModuleProto& module);

}  // namespace switchtower
