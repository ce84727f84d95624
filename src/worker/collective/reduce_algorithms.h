// All-reduce and reduce-scatter: fold in the order of group positions.
//
// Place:    worker/collective; see algorithm.h for threads, errors and invariants.
#pragma once

#include "worker/collective/algorithm.h"

namespace switchtower {
const Algorithm& AllReduce();
const Algorithm& ReduceScatter();
}  // namespace switchtower
