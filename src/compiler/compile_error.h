// What a failed compile is called towards a client.
//
// Elastic training loops take the words DATA_LOSS, INTERNAL, NOT_FOUND and UNAVAILABLE in an error for a lost
// slice and start over, for ever. A program that can't be compiled is none of that: the codes become
// INVALID_ARGUMENT, the words are written small.
//
// Place:    compiler; every error that leaves this folder towards a client passes here.
#pragma once

#include "absl/status/status.h"

namespace switchtower {

absl::Status AsCompileError(const absl::Status& status);

}  // namespace switchtower
