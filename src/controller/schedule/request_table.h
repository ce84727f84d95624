// Questions to workers that wait for an answer: readiness and reads.
//
// Place:    controller/schedule.
// Threads:  the home strand; callbacks run there.
// Invariants: Q-1 each question is answered once by each worker that it went to: by its event, or with DATA_LOSS when
//           the worker is lost, or with the session's end. Q-2 a question is one command, encoded once, whatever
//           the number of workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  // Nobody is asked: the end of a launch that makes the arrays is the answer.
  RequestId AwaitLaunch(SessionId session, std::vector<WorkerLinkPtr> links, std::vector<ArrayId> arrays,
                        Callback<absl::Status> done);
  void LaunchEnded(RequestId id, const absl::Status& status);
  void Read(SessionId session, const WorkerLinkPtr& link, const PhysicalDevice& device, ReadOp op);

  void OnReady(const WorkerLinkPtr& link, const Ready& event);
  void OnReadData(const WorkerLinkPtr& link, ReadData event);
  void WorkerLost(const WorkerLinkPtr& link, const absl::Status& cause);
  void FailSession(SessionId session, const absl::Status& cause);
  std::vector<WaitSnapshot> Describe(std::chrono::steady_clock::time_point now) const;
  size_t size() const { return questions_.size(); }

 private:
  struct Wait {            // shared by the groups of one AwaitReady
    size_t remaining = 0;  // answers
    size_t first_group = SIZE_MAX;
    absl::Status error;
    Callback<absl::Status> done;
  };
  using WaitPtr = std::shared_ptr<Wait>;
  // What an answer, whoever gives it, is for.
  struct Purpose {
    SessionId session;
    WaitPtr wait;  // readiness
    size_t group = 0;
    std::shared_ptr<ReadOp> read;  // or a read
  };
  struct Question {
    Purpose purpose;
    std::vector<WorkerLinkPtr> links;              // by seat
    std::vector<bool> answered;                    // of them
    size_t open = 0;                               // answers that are missing
    std::shared_ptr<const SharedCommand> command;  // names the arrays
    std::chrono::steady_clock::time_point since;
    absl::Status held;  // an answer that waits for the worker's story of it
  };
  struct Answered {
    Purpose purpose;
    absl::Status held;
  };
  // `links` by seat.
  RequestId Ask(Purpose purpose, std::vector<WorkerLinkPtr> links, absl::Status held);
  void Send(RequestId id, WorkerCommand command);
  // Takes the worker off the question; nothing if it owes no answer to it. The question goes with the last one.
  std::optional<Answered> TakeAnswer(RequestId id, const WorkerLink& link);
  void Answer(const WorkerLinkPtr& link, const Answered& answered, const absl::Status& status);
  static void Finish(const Purpose& purpose, const absl::Status& status);

  const IsKnown is_known_;
  absl::flat_hash_map<RequestId, Question> questions_;
  uint64_t last_id_ = 0;
};

}  // namespace switchtower
