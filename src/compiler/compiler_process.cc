#include "compiler/compiler_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compiler/frame_io.h"

namespace switchtower {
namespace {

constexpr int kChildSocket = 3;
constexpr size_t kErrorTailBytes = 8192;
constexpr size_t kShownTailBytes = 1500;

absl::Status Errno(const char* what) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", what, std::strerror(errno)));
}

// Between fork and exec of a process with threads: async-signal-safe calls only, no allocation.
[[noreturn]] void RunChild(char* const* argv, int socket, int error_output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);  // a Ctrl-C at the terminal is for the server alone
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(error_output, 2) < 0) _exit(127);
  // Through a number above all of ours, in case one of them is 3 already; dup2 clears close-on-exec.
  const int high = fcntl(socket, F_DUPFD, 64);
  if (high < 0 || dup2(high, kChildSocket) < 0) _exit(127);
  if (syscall(SYS_close_range, kChildSocket + 1, ~0U, 0) != 0) {
    for (int fd = kChildSocket + 1; fd < 65536; ++fd) close(fd);
  }
  execv(argv[0], argv);
  constexpr char kMessage[] = "can't execute the compiler\n";
  [[maybe_unused]] const ssize_t n = write(2, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

// The last whole lines of what a child wrote.
std::string LastLines(const std::string& text) {
  std::string_view tail = text;
  if (tail.size() > kShownTailBytes) {
    tail.remove_prefix(tail.size() - kShownTailBytes);
    const size_t line = tail.find('\n');
    if (line != std::string_view::npos) tail.remove_prefix(line + 1);
  }
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\0')) tail.remove_suffix(1);
  return std::string(tail);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompilerProcess>> CompilerProcess::Start(std::vector<std::string> command) {
  command.push_back("--fd");
  command.push_back(std::to_string(kChildSocket));
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return Errno("socketpair");
  UniqueFd ours(sockets[0]);
  UniqueFd theirs(sockets[1]);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return Errno("pipe");
  UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);
  if (fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0 || fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return Errno("fcntl");
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Errno("fork");
  if (pid == 0) RunChild(argv.data(), theirs.get(), write_end.get(), parent);
  return std::unique_ptr<CompilerProcess>(new CompilerProcess(pid, std::move(ours), std::move(read_end)));
}

CompilerProcess::CompilerProcess(pid_t pid, UniqueFd socket, UniqueFd error_output)
    : pid_(pid), socket_(std::move(socket)), error_output_(std::move(error_output)) {}

CompilerProcess::~CompilerProcess() { Kill(); }

bool CompilerProcess::IsReady() {
  if (pid_ <= 0) return false;
  char unasked;
  if (recv(socket_.get(), &unasked, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return false;
  siginfo_t info = {};
  // WNOWAIT leaves the status for whoever wants to tell how it ended.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
  return info.si_pid == 0;
}

void CompilerProcess::Kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void CompilerProcess::DrainErrorOutput() {
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(error_output_.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      error_output_.reset();
      return;
    }
    error_tail_.append(buffer, static_cast<size_t>(n));
    if (error_tail_.size() > 2 * kErrorTailBytes) error_tail_.erase(0, error_tail_.size() - kErrorTailBytes);
  }
}

absl::Status CompilerProcess::Ending() {
  // It closed its socket, so it is on its way out; a few steps of patience, then it is made to go.
  int status = 0;
  pid_t reaped = 0;
  for (int i = 0; i < 200 && reaped == 0; ++i) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == 0) poll(nullptr, 0, 10);
  }
  if (reaped == pid_) {
    pid_ = -1;
  } else {
    Kill();
  }
  if (error_output_.valid()) DrainErrorOutput();
  std::string how = "it closed its connection";
  if (reaped > 0 && WIFSIGNALED(status)) {
    how = fmt::format("signal {}, {}", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (reaped > 0 && WIFEXITED(status)) {
    how = fmt::format("exit status {}", WEXITSTATUS(status));
  }
  const std::string lines = LastLines(error_tail_);
  if (!lines.empty()) how += fmt::format(": {}", lines);
  return absl::FailedPreconditionError(how);
}

absl::StatusOr<std::string> CompilerProcess::Exchange(std::string_view message,
                                                      std::chrono::steady_clock::time_point deadline, int stop_fd) {
  error_tail_.clear();
  const std::string header = FrameHeader(message.size());
  std::string_view parts[] = {header, message};
  size_t part = 0;
  FrameReader answer;

  for (;;) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return absl::DeadlineExceededError("no answer in time");
    const int64_t wait_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
    while (part < 2 && parts[part].empty()) ++part;
    pollfd fds[3] = {
        {socket_.get(), static_cast<short>(POLLIN | (part < 2 ? POLLOUT : 0)), 0},
        {error_output_.valid() ? error_output_.get() : -1, POLLIN, 0},
        {stop_fd, POLLIN, 0},
    };
    if (poll(fds, 3, static_cast<int>(std::min<int64_t>(wait_ms, 60'000))) < 0 && errno != EINTR) {
      return Errno("poll");
    }
    if (fds[2].revents != 0) return absl::CancelledError("stopped");
    if (fds[1].revents != 0) DrainErrorOutput();
    if ((fds[0].revents & POLLOUT) != 0 && part < 2) {
      const ssize_t n = send(socket_.get(), parts[part].data(), parts[part].size(), MSG_NOSIGNAL);
      if (n > 0) parts[part].remove_prefix(static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN && errno != EINTR) return Ending();
    }
    if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    const absl::Span<char> room = answer.Room();
    const ssize_t n = recv(socket_.get(), room.data(), room.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return Ending();
    if (part < 2) return absl::FailedPreconditionError("it answered before it was asked");
    RETURN_IF_ERROR(answer.Took(static_cast<size_t>(n)));
    if (answer.complete()) return std::move(answer).Take();
  }
}

}  // namespace switchtower
