// Collectives that copy and don't compute.
//
// Place:    worker/collective; see algorithm.h for threads, errors and invariants.
#pragma once

#include "worker/collective/algorithm.h"

namespace switchtower {
const Algorithm& AllGather();
const Algorithm& AllToAll();       // one operand for each position
const Algorithm& AllToAllArray();  // one operand, cut into chunks
const Algorithm& Permute();        // permute and broadcast
const Algorithm& RaggedAllToAll();
}  // namespace switchtower
