// Who takes part in a collective: the ranks of one group and the processes that they live in.
//
// Place:    worker/collective; a pure value, the same on every process but for `self`.
// Threads:  GroupPlan is immutable; PlanCache from any thread.
// Lifetime: a plan holds its gang's table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "worker/exec/launch_context.h"

namespace switchtower {

// "Position" is the place of a rank in its group; reductions fold in the order of positions.
struct GroupPlan {
  struct Process {
    WorkerId worker;
    std::vector<int> positions;  // ascending
  };

  std::shared_ptr<const GangTable> gang;
  std::vector<int64_t> ranks;      // position -> rank
  std::vector<Process> processes;  // in the order of their first positions
  int self = -1;                   // index of this process; -1: none of the ranks is here
  std::vector<int> process_of;     // position -> process
  std::vector<int> index_of;       // position -> index inside its process

  int size() const { return static_cast<int>(ranks.size()); }
  int process_count() const { return static_cast<int>(processes.size()); }
  const std::vector<int>& local() const { return processes[self].positions; }
  // -1: not in the group.
  int PositionOf(int64_t rank) const;
  int ProcessIndex(WorkerId worker) const;
};

// Plans by (gang, ranks): a program comes to the same groups at every step.
class PlanCache {
 public:
  // InvalidArgument for ranks outside the gang, ranks that occur twice and groups without a rank here.
  absl::StatusOr<std::shared_ptr<const GroupPlan>> Get(const std::shared_ptr<const GangTable>& gang,
                                                       absl::Span<const int64_t> ranks) EXCLUDES(mutex_);

 private:
  static constexpr size_t kPlansMax = 1024;  // beyond it the cache starts anew
  Mutex mutex_;
  absl::flat_hash_map<size_t, std::shared_ptr<const GroupPlan>> plans_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
