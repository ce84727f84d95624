// Questions to workers that wait for an answer: readiness and reads.
//
// Place:    controller/schedule.
// Threads:  the home strand; callbacks run there.
// Invariants: Q-1 each question is answered once: by its worker's event, or with DATA_LOSS when the worker is
//           lost, or with its session's end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "controller/api/snapshot.h"
#include "controller/cluster/cluster_view.h"
#include "controller/schedule/ops.h"

namespace switchtower {

class RequestTable {
 public:
  // Whether the controller knows which request an error of a worker belongs to.
  using IsKnown = std::function<bool(SessionId, const absl::Status&)>;
  explicit RequestTable(IsKnown is_known) : is_known_(std::move(is_known)) {}

  // Answers of several workers become one: `done` gets the error of the earliest group that has one.
  void AwaitReady(SessionId session,
                  const std::vector<std::pair<std::vector<WorkerLinkPtr>, std::vector<ArrayId>>>& groups,
                  Callback<absl::Status> done);
  void Read(SessionId session, const WorkerLinkPtr& link, const PhysicalDevice& device, ReadOp op);

  void OnReady(const Ready& event);
  void OnReadData(ReadData event);
  void WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause);
  void FailSession(SessionId session, const absl::Status& cause);
  std::vector<WaitSnapshot> Describe(std::chrono::steady_clock::time_point now) const;
  size_t size() const { return pending_.size(); }

 private:
  struct Wait {  // shared by the parts of one AwaitReady
    size_t remaining = 0;
    size_t first_group = SIZE_MAX;
    absl::Status error;
    Callback<absl::Status> done;
  };
  struct Pending {
    SessionId session;
    WorkerLinkPtr link;
    std::shared_ptr<Wait> wait;  // readiness
    size_t group = 0;
    std::unique_ptr<ReadOp> read;                  // or a read
    std::shared_ptr<const SharedCommand> command;  // names the arrays
    std::chrono::steady_clock::time_point since;
    absl::Status held;  // an answer that waits for the worker's story of it
  };
  void Answer(Pending pending, const absl::Status& status);
  void Finish(Pending pending, const absl::Status& status);
  template <typename Match>
  void FailWhere(Match match, const absl::Status& cause);

  const IsKnown is_known_;
  absl::flat_hash_map<RequestId, Pending> pending_;
  uint64_t next_id_ = 1;
};

}  // namespace switchtower
