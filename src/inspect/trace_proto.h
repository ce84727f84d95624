// Recorded spans as the messages of a trace stream.
#pragma once

#include <deque>

#include "controller/api/trace.h"
#include "switchtower/introspection_service.pb.h"

namespace switchtower {

// At least one chunk; the last says what was dropped.
std::deque<introspection::TraceChunk> ToChunks(const TraceRecorder::Recording& recording);

}  // namespace switchtower
