// WorkerActivity <-> its message of worker.proto.
#pragma once

#include "switchtower/worker.pb.h"
#include "worker_api/worker_activity.h"

namespace switchtower::worker_wire {

void ToProto(const WorkerActivity& in, ::switchtower::worker::WorkerActivity* out);
// Any message is a value: who reads it only shows it, and looks ids up.
WorkerActivity FromProto(const ::switchtower::worker::WorkerActivity& in);

}  // namespace switchtower::worker_wire
