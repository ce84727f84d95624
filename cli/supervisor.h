// Keeps a set of processes alive: starts them, waits for their ready lines, restarts those that die, and
// ends them all in order.
//
// Threads:  all methods on the main thread, which must have SIGCHLD, SIGINT and SIGTERM blocked
//           (BlockSignals).
// Errors:   a child that ends before its first ready line fails WaitReady; one that keeps dying at once is given up.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "cli/child_process.h"

namespace switchtower {

struct SupervisedProcess {
  std::string name;          // "worker slice0/1"
  ChildOptions options;      // pipe_stdout is set by the supervisor
  std::string ready_prefix;  // what its ready line starts with
  bool restart = true;       // false: its end ends the cluster
};

class Supervisor {
 public:
  static void BlockSignals();

  ~Supervisor();

  // Adds and starts a process.
  absl::Status Start(SupervisedProcess process);
  // The ready line of `name`, without the prefix.
  absl::StatusOr<std::string> WaitReady(const std::string& name, std::chrono::milliseconds timeout);
  // For the next start of `name`.
  void ReplaceArgument(const std::string& name, const std::string& from, const std::string& to);
  // Until a signal to stop (0 is returned), the end of `foreground` (its exit code), or a process that can't be
  // kept alive (1). `said` gets a line for each restart.
  int Run(pid_t foreground, absl::AnyInvocable<void(const std::string&)> said);
  // Ends the last started, then those in between, then the first: SIGTERM, then SIGKILL for those that stay longer
  // than `grace`.
  void Stop(std::chrono::milliseconds grace);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    SupervisedProcess process;
    ChildProcess child;
    std::string output;                // stdout up to the ready line
    std::optional<std::string> ready;  // what followed ready_prefix
    Clock::time_point started;
    int quick_deaths = 0;
    std::optional<int> wait_status;  // not running
  };

  absl::Status Launch(Entry& entry);
  void ReadOutput(Entry& entry);
  // Handles children that ended. An error: one that can't be kept.
  absl::Status Reap(pid_t foreground, std::optional<int>* foreground_status,
                    absl::AnyInvocable<void(const std::string&)>* said);
  void AwaitEnd(Entry& entry, Clock::time_point deadline);
  // Waits for a signal or for output of a child. The signal, or 0.
  int WaitForEvent(std::chrono::milliseconds timeout);

  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace switchtower
