// Parts of a HomeSnapshot that several tables have a share in.
//
// Place:    controller/schedule; pure. What one table knows alone it describes itself.
// Threads:  the home strand.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "controller/api/snapshot.h"
#include "controller/cluster/cluster_view.h"
#include "controller/schedule/activity_questions.h"
#include "controller/schedule/in_flight_table.h"
#include "controller/schedule/ops.h"

namespace switchtower {

inline int64_t MicrosecondsSince(std::chrono::steady_clock::time_point then,
                                 std::chrono::steady_clock::time_point now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now - then).count();
}

std::vector<WorkerSnapshot> DescribeWorkers(const ClusterView& view, const ActivityQuestions& activity,
                                            std::chrono::steady_clock::time_point now);

// A rank is in if its own worker says so; of a worker that owes an answer its peers may know. Collectives of launches
// that have ended meanwhile are left out.
std::vector<CollectiveSnapshot> MergeCollectives(const std::vector<WorkerSnapshot>& workers,
                                                 const InFlightTable& launches);

QueuedSnapshot DescribeQueued(const Op& op);
// The seats that it needs and nobody has sat on yet.
std::string MissingWorkers(const Op& op, const ClusterView& view);

}  // namespace switchtower
