// What workers are at, asked of them for somebody who looks.
//
// A worker that owes an answer isn't asked again: who polls a stopped host doesn't fill its socket.
//
// Place:    controller/schedule.
// Threads:  the home strand; `done` runs there.
// Invariants: Q-1 each question is answered once: when no worker owes it an answer, or by Expire. One that is still
//           open when the home ends is dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "controller/cluster/cluster_view.h"

namespace switchtower {

class ActivityQuestions {
 public:
  using Clock = std::chrono::steady_clock;

  // The question's number, for Expire.
  uint64_t Ask(const std::vector<WorkerLinkPtr>& links, Clock::time_point now, absl::AnyInvocable<void()> done);
  void Expire(uint64_t question);
  void OnAnswer(const WorkerLinkPtr& link, WorkerActivity answer);
  void WorkerLost(const WorkerLinkPtr& link);

  // The last answer, and since when the worker has owed one; null and absent if there is none.
  const WorkerActivity* Latest(const WorkerLink& link) const;
  std::optional<Clock::time_point> OwesSince(const WorkerLink& link) const;

 private:
  struct State {
    std::optional<WorkerActivity> latest;
    std::optional<Clock::time_point> asked;
  };
  struct Question {
    absl::flat_hash_set<const WorkerLink*> open;
    absl::AnyInvocable<void()> done;
  };
  void Settle(const WorkerLink* link);

  absl::flat_hash_map<const WorkerLink*, State> states_;
  std::map<uint64_t, Question> questions_;
  uint64_t last_ = 0;
};

}  // namespace switchtower
