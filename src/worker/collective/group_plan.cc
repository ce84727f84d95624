#include "worker/collective/group_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::StatusOr<std::shared_ptr<const GroupPlan>> MakePlan(const std::shared_ptr<const GangTable>& gang,
                                                          absl::Span<const int64_t> ranks) {
  auto plan = std::make_shared<GroupPlan>();
  plan->gang = gang;
  plan->ranks.assign(ranks.begin(), ranks.end());
  std::vector<char> seen(gang->ranks.size());
  absl::flat_hash_map<WorkerId, int> index;
  for (size_t position = 0; position < ranks.size(); ++position) {
    const int64_t rank = ranks[position];
    if (rank < 0 || rank >= static_cast<int64_t>(gang->ranks.size())) {
      return absl::InvalidArgumentError(fmt::format("rank {} is not in the gang of {}", rank, gang->ranks.size()));
    }
    if (std::exchange(seen[rank], 1) != 0) {
      return absl::InvalidArgumentError(fmt::format("rank {} occurs twice in a group", rank));
    }
    const WorkerId worker = gang->ranks[rank].worker;
    const auto [it, added] = index.try_emplace(worker, static_cast<int>(plan->processes.size()));
    if (added) plan->processes.push_back({worker, {}});
    GroupPlan::Process& process = plan->processes[it->second];
    plan->process_of.push_back(it->second);
    plan->index_of.push_back(static_cast<int>(process.positions.size()));
    process.positions.push_back(static_cast<int>(position));
  }
  plan->self = plan->ProcessIndex(gang->self);
  if (plan->self < 0) return absl::InvalidArgumentError("no rank of the group is on this worker");
  return plan;
}

}  // namespace

int GroupPlan::PositionOf(int64_t rank) const {
  const auto it = std::find(ranks.begin(), ranks.end(), rank);
  return it == ranks.end() ? -1 : static_cast<int>(it - ranks.begin());
}

int GroupPlan::ProcessIndex(WorkerId worker) const {
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].worker == worker) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<std::shared_ptr<const GroupPlan>> PlanCache::Get(const std::shared_ptr<const GangTable>& gang,
                                                                absl::Span<const int64_t> ranks) {
  const size_t hash = absl::HashOf(gang.get(), ranks);
  {
    MutexLock lock(mutex_);
    const auto it = plans_.find(hash);
    if (it != plans_.end() && it->second->gang == gang && absl::MakeConstSpan(it->second->ranks) == ranks) {
      return it->second;
    }
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const GroupPlan> plan, MakePlan(gang, ranks));
  MutexLock lock(mutex_);
  if (plans_.size() >= kPlansMax) plans_.clear();
  plans_[hash] = plan;
  return plan;
}

}  // namespace switchtower
