// A child process that can't outlive its parent, with its standard output as a pipe on request.
//
// Threads:  one owner. Spawn from the main thread only: Linux ends the child (PR_SET_PDEATHSIG) when the
//           thread that forked it ends.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace switchtower {

struct ChildOptions {
  std::vector<std::string> argv;                   // argv[0] is looked up in PATH if it has no slash
  std::map<std::string, std::string> environment;  // on top of ours
  std::vector<int> cores;                          // it may run on these alone; empty: as we may
  bool pipe_stdout = false;
  // Away from the terminal's Ctrl-C: its end is the supervisor's to order.
  bool own_group = true;
};

struct ChildProcess {
  pid_t pid = -1;
  int stdout_fd = -1;  // nonblocking, ours to close; -1 if not piped
};

absl::StatusOr<ChildProcess> Spawn(const ChildOptions& options);

// "exit code 3", "signal 9 (Killed)".
std::string DescribeExit(int wait_status);
// As a shell reports it: the code, or 128 + signal.
int ExitCode(int wait_status);

}  // namespace switchtower
