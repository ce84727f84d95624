// Whose program is compiled next.
//
// Sessions take turns: the one with the fewest programs in compilers goes first, and of those the one that had its last
// turn, or came with something to compile, longest ago. One that has none in a compiler needn't wait until others' are
// done: spare compilers are for such sessions, so that nobody's large programs hold up everybody's small ones.
//
// Place:   compiler; used by CompilerClient. Pure: no clock, no thread.
// Threads: the caller's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/net/unique_fd.h"
#include "compiler/compile_service.h"
#include "types/ids.h"

namespace switchtower {

struct CompileJob {
  uint64_t number = 0;
  ProgramId id;
  CompileRequest request;
  CompileService::Done done;
  // While it runs: an eventfd, readable when nobody wants the answer any more.
  UniqueFd given_up;
};

class CompileQueue {
 public:
  using JobPtr = std::shared_ptr<CompileJob>;
  // So many compilers for all, and so many more for sessions that have none.
  CompileQueue(size_t compilers, size_t spare) : compilers_(compilers), spare_(spare) {}

  // It comes up when the session that asks has its turn.
  void Add(JobPtr job);
  // Or this one, whichever is first. Does nothing if the job has ended.
  void Join(uint64_t number, SessionId session);
  // The next to be compiled, running from now on; null if there is none, or no compiler for it.
  JobPtr Take();
  // How many Take might give one after the other, about; 0 if none.
  size_t startable() const;
  // The end of a job that was taken.
  void Ended(const CompileJob& job) { Remove(job.number); }
  // Removes a job that still waits; false if it is running or has ended.
  bool Drop(uint64_t number);

  // Null if it has ended.
  JobPtr Find(uint64_t number) const;

  size_t waiting() const { return jobs_.size() - running_; }
  size_t waiting(SessionId session) const;
  std::vector<JobPtr> all() const;  // waiting and running

 private:
  struct Job {
    JobPtr job;
    std::vector<SessionId> sessions;
    bool running = false;
  };
  struct Turn {
    std::deque<uint64_t> waiting;
    size_t running = 0;
    uint64_t last = 0;
  };
  using Turns = std::map<SessionId, Turn>;

  Turns::const_iterator Next() const;
  Turn& TurnOf(SessionId session);
  void Await(Turn& turn, uint64_t number);
  void Remove(uint64_t number);

  const size_t compilers_;
  const size_t spare_;
  std::map<uint64_t, Job> jobs_;
  Turns turns_;  // of sessions that have jobs
  size_t running_ = 0;
  uint64_t last_turn_ = 0;
};

}  // namespace switchtower
