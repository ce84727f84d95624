// A trace in Chrome's JSON format, which Perfetto and chrome://tracing open.
//
//   process "client"      one track for each session's requests
//   process "controller"  the sequencer
//   process "devices"     one track a device
//   process "transfers"   one track a link from worker to worker
//
// Arrows: a request -> the operation that the sequencer sent for it -> the launch on each device.
//
// Place: inspect; pure.
#pragma once

#include <string>
#include <vector>

#include "switchtower/introspection_service.pb.h"

namespace switchtower {

// Times begin at the first event. `dropped` events are told in the metadata.
std::string TraceJson(std::vector<introspection::TraceEvent> events, uint64_t dropped);

}  // namespace switchtower
