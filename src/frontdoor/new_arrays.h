// Which arrays a request makes, by handle.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "frontdoor/replier.h"

namespace switchtower {

// Whether the request is of a kind that makes arrays.
bool MakesArrays(const IfrtRequest& request);

// The client's handles, and those that the session drew for it (an executable's first results). Also of a request that
// failed: its handles are bound to the error.
void ForEachNewArray(const IfrtRequest& request, const IfrtResponse& response, absl::FunctionRef<void(uint64_t)> fn);

}  // namespace switchtower
