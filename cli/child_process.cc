#include "cli/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/net/unique_fd.h"
#include "base/status_macros.h"

extern char** environ;

namespace switchtower {
namespace {

std::vector<std::string> MergedEnvironment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (extra.count(text.substr(0, text.find('='))) == 0) merged.push_back(text);
  }
  for (const auto& [name, value] : extra) merged.push_back(name + "=" + value);
  return merged;
}

struct Pipe {
  absl::Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return absl::ResourceExhaustedError(fmt::format("can't make a pipe: {}", strerror(errno)));
    }
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
    return absl::OkStatus();
  }
  UniqueFd out, in;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<ChildProcess> Spawn(const ChildOptions& options) {
  // Everything that allocates happens before the fork.
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> variables = MergedEnvironment(options.environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  Pipe output;
  if (options.pipe_stdout) RETURN_IF_ERROR(output.Open());
  Pipe failure;  // carries errno of a failed exec; closes by itself on success
  RETURN_IF_ERROR(failure.Open());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core : options.cores) CPU_SET(core, &cores);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(fmt::format("can't start a process: {}", strerror(errno)));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the line above
    if (options.own_group) setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!options.cores.empty()) sched_setaffinity(0, sizeof(cores), &cores);
    if (output.in.valid()) dup2(output.in.get(), STDOUT_FILENO);
    environ = const_cast<char**>(envp.data());
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] ssize_t ignored = write(failure.in.get(), &error, sizeof(error));
    _exit(127);
  }
  failure.in.reset();
  int error = 0;
  if (TEMP_FAILURE_RETRY(read(failure.out.get(), &error, sizeof(error))) == sizeof(error)) {
    TEMP_FAILURE_RETRY(waitpid(pid, nullptr, 0));
    return absl::NotFoundError(fmt::format("can't run {}: {}", options.argv[0], strerror(error)));
  }
  if (output.out.valid()) fcntl(output.out.get(), F_SETFL, O_NONBLOCK);
  return ChildProcess{pid, output.out.release()};
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace switchtower
