// Execute: the hot path. Per call the work is in proportion to arguments and results, never to devices.
//
// Place:    controller/graph.
// Threads:  the session's strand.
// Errors:   a launch that can't be made binds its results to the error and returns it; `on_status` is then
//           dropped uncalled.
#pragma once

#include "controller/graph/session_context.h"

namespace switchtower {

absl::StatusOr<ExecuteReply> ExecuteProgram(SessionContext& session, const ExecuteRequest& request,
                                            Callback<absl::Status> on_status);

}  // namespace switchtower
