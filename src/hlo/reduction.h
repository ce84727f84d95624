// Which reduction a collective does: read off the computation that it calls.
#pragma once

#include "absl/status/statusor.h"
#include "hlo/collective_calls.h"
#include "hlo/module_index.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// The kind of all-reduce or reduce-scatter `instruction`, on elements of type `type`. The called computation must
// be one binary operation on its two parameters. Unimplemented for others, by name.
absl::StatusOr<ReductionKind> ReductionOf(const ModuleIndex& index, const xla::HloInstructionProto& instruction);

// Unimplemented if `kind` isn't defined on `type`. On pred, arithmetic kinds become their logical equals.
absl::StatusOr<ReductionKind> ReductionOn(ReductionKind kind, xla::PrimitiveType type);

}  // namespace switchtower
