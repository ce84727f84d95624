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
  int output[2] = {-1, -1};
  if (options.pipe_stdout && pipe2(output, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(fmt::format("can't make a pipe: {}", strerror(errno)));
  }
  int failure[2];  // carries errno of a failed exec; closes by itself on success
  if (pipe2(failure, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(fmt::format("can't make a pipe: {}", strerror(errno)));
  }
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
    if (output[1] >= 0) dup2(output[1], STDOUT_FILENO);
    environ = const_cast<char**>(envp.data());
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] ssize_t ignored = write(failure[1], &error, sizeof(error));
    _exit(127);
  }
  close(failure[1]);
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof(error)) == sizeof(error);
  close(failure[0]);
  if (output[1] >= 0) close(output[1]);
  if (failed) {
    waitpid(pid, nullptr, 0);
    if (output[0] >= 0) close(output[0]);
    return absl::NotFoundError(fmt::format("can't run {}: {}", options.argv[0], strerror(error)));
  }
  if (output[0] >= 0) fcntl(output[0], F_SETFL, O_NONBLOCK);
  return ChildProcess{pid, output[0]};
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
