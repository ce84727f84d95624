#include "child_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "process_use.h"

namespace switchtower::bench {

absl::StatusOr<std::unique_ptr<ChildServer>> ChildServer::Start(std::vector<std::string> arguments) {
  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const int pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) {
    ::dup2(input[0], STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    std::vector<char*> argv{const_cast<char*>("server")};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(1);
  }
  ::close(input[0]);
  ::close(output[1]);
  std::string line;
  char byte;
  while (::read(output[0], &byte, 1) == 1 && byte != '\n') line += byte;
  ::close(output[0]);
  std::unique_ptr<ChildServer> child(new ChildServer(pid, input[1], line));
  if (line.empty()) return absl::UnavailableError("the server process ended before it told its address");
  return child;
}

ChildServer::~ChildServer() {
  ::close(input_);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int64_t ChildServer::CpuNs() const { return ProcessCpuNs(pid_); }

void AnnounceAndServe(const std::string& address) {
  std::printf("%s\n", address.c_str());
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

}  // namespace switchtower::bench
