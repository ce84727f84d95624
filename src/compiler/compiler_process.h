// A child process that answers frames on a socket: started, asked, watched, ended and reaped.
//
// Place:    compiler; owned by a slot of CompilerClient.
// Threads:  one at a time. The kernel kills the child when the thread that started it ends, so the starter
//           must live as long as the child.
// Lifetime: the destructor kills and reaps: a compiler has nothing to save.
// Errors:   Start: FailedPrecondition. Exchange: DeadlineExceeded; Cancelled (the stop event came);
//           FailedPrecondition: the child ended, with how, and the last lines that it wrote to stderr.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/net/unique_fd.h"

namespace switchtower {

class CompilerProcess {
 public:
  // Runs `command` with "--fd 3" appended. Nothing else is inherited: standard input and output are empty,
  // standard error comes here.
  static absl::StatusOr<std::unique_ptr<CompilerProcess>> Start(std::vector<std::string> command);
  ~CompilerProcess();
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  // Sends a frame and waits for one. Afterwards, if it failed, the child is useless: destroy it. An answer that comes
  // before the child can have read the question is none.
  // `stop_fd` becomes readable when nobody wants the answer any more.
  absl::StatusOr<std::string> Exchange(std::string_view message, std::chrono::steady_clock::time_point deadline,
                                       int stop_fd);
  pid_t pid() const { return pid_; }
  // False if since the last exchange it has ended, or said something that it wasn't asked for: that would be taken for
  // the answer about the next program, which may be somebody else's.
  bool IsReady();

 private:
  CompilerProcess(pid_t pid, UniqueFd socket, UniqueFd error_output);
  void DrainErrorOutput();
  // Reaps the child, which is gone or about to go, and says how it ended.
  absl::Status Ending();
  void Kill();

  pid_t pid_;
  UniqueFd socket_;
  UniqueFd error_output_;
  std::string error_tail_;
};

}  // namespace switchtower
