#include "cli/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include "base/log.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

// A process that dies this soon after its start, this many times in a row, is given up.
constexpr std::chrono::seconds kQuickDeath(3);
constexpr int kQuickDeathsMax = 5;

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void Supervisor::BlockSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Supervisor::~Supervisor() { Stop(std::chrono::milliseconds(2000)); }

absl::Status Supervisor::Start(SupervisedProcess process) {
  auto entry = std::make_unique<Entry>();
  entry->process = std::move(process);
  entry->process.options.pipe_stdout = true;
  RETURN_IF_ERROR(Launch(*entry));
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status Supervisor::Launch(Entry& entry) {
  if (entry.child.stdout_fd >= 0) close(entry.child.stdout_fd);
  entry.child = ChildProcess{};
  ASSIGN_OR_RETURN(entry.child, Spawn(entry.process.options));
  entry.output.clear();
  entry.ready.reset();
  entry.wait_status.reset();
  entry.started = Clock::now();
  return absl::OkStatus();
}

void Supervisor::ReadOutput(Entry& entry) {
  char buffer[4096];
  ssize_t count;
  while ((count = read(entry.child.stdout_fd, buffer, sizeof(buffer))) > 0) {
    if (entry.ready) continue;  // nothing of it is needed after the ready line
    entry.output.append(buffer, count);
    const size_t begin = entry.output.find(entry.process.ready_prefix);
    const size_t end = entry.output.find('\n', begin);
    if (begin == std::string::npos || end == std::string::npos) continue;
    const size_t value = begin + entry.process.ready_prefix.size();
    entry.ready = entry.output.substr(value, end - value);
  }
}

int Supervisor::WaitForEvent(std::chrono::milliseconds timeout) {
  const sigset_t set = StopSignals();
  const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  std::vector<pollfd> fds{{signals, POLLIN, 0}};
  for (const auto& entry : entries_) {
    if (!entry->wait_status) fds.push_back({entry->child.stdout_fd, POLLIN, 0});
  }
  poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
  signalfd_siginfo info{};
  const bool signalled = read(signals, &info, sizeof(info)) == sizeof(info);
  close(signals);
  for (const auto& entry : entries_) {
    if (!entry->wait_status) ReadOutput(*entry);
  }
  return signalled ? static_cast<int>(info.ssi_signo) : 0;
}

absl::StatusOr<std::string> Supervisor::WaitReady(const std::string& name, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    std::optional<int> foreground;
    RETURN_IF_ERROR(Reap(-1, &foreground, nullptr));
    for (const auto& entry : entries_) {
      if (entry->process.name == name && entry->ready) return *entry->ready;
    }
    if (Clock::now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format(
          "{} wasn't ready after {} s; run with --log-dir and look at its log", name, timeout.count() / 1000));
    }
    const int signal = WaitForEvent(std::chrono::milliseconds(200));
    if (signal != 0 && signal != SIGCHLD) return absl::CancelledError("stopped by a signal");
  }
}

void Supervisor::ReplaceArgument(const std::string& name, const std::string& from, const std::string& to) {
  for (const auto& entry : entries_) {
    if (entry->process.name != name) continue;
    for (std::string& argument : entry->process.options.argv) {
      if (argument == from) argument = to;
    }
  }
}

absl::Status Supervisor::Reap(pid_t foreground, std::optional<int>* foreground_status,
                              absl::AnyInvocable<void(const std::string&)>* said) {
  int status = 0;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == foreground) {
      *foreground_status = status;
      continue;
    }
    for (const auto& entry : entries_) {
      if (entry->child.pid != pid || entry->wait_status) continue;
      ReadOutput(*entry);
      entry->wait_status = status;
      const std::string what = fmt::format("{} (pid {}) ended: {}", entry->process.name, pid, DescribeExit(status));
      const bool quick = Clock::now() - entry->started < kQuickDeath;
      entry->quick_deaths = quick ? entry->quick_deaths + 1 : 0;
      if (said == nullptr || !entry->process.restart || entry->quick_deaths >= kQuickDeathsMax) {
        return absl::AbortedError(what);
      }
      RETURN_IF_ERROR(Launch(*entry));
      (*said)(fmt::format("{}; restarted as pid {}", what, entry->child.pid));
    }
  }
  return absl::OkStatus();
}

int Supervisor::Run(pid_t foreground, absl::AnyInvocable<void(const std::string&)> said) {
  while (true) {
    std::optional<int> foreground_status;
    const absl::Status status = Reap(foreground, &foreground_status, &said);
    if (foreground_status) return ExitCode(*foreground_status);
    if (!status.ok()) {
      said(std::string(status.message()));
      return 1;
    }
    const int signal = WaitForEvent(std::chrono::milliseconds(1000));
    if (signal == 0 || signal == SIGCHLD) continue;
    if (foreground <= 0) return 0;
    kill(foreground, signal);  // the command decides; its end ends the cluster
  }
}

void Supervisor::Stop(std::chrono::milliseconds grace) {
  // Those between the first and the last end together, so that none sees the others as lost.
  const auto stop = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!entries_[i]->wait_status) kill(entries_[i]->child.pid, SIGTERM);
    }
    const Clock::time_point deadline = Clock::now() + grace;
    for (size_t i = begin; i < end; ++i) AwaitEnd(*entries_[i], deadline);
  };
  const size_t count = entries_.size();
  if (count > 1) stop(count - 1, count);
  if (count > 2) stop(1, count - 1);
  if (count > 0) stop(0, 1);
  entries_.clear();
}

void Supervisor::AwaitEnd(Entry& entry, Clock::time_point deadline) {
  int status = 0;
  while (!entry.wait_status && waitpid(entry.child.pid, &status, WNOHANG) == 0) {
    if (Clock::now() < deadline) {
      usleep(5000);
      continue;
    }
    LogWarn("{} doesn't stop and is killed", entry.process.name);
    kill(entry.child.pid, SIGKILL);
    TEMP_FAILURE_RETRY(waitpid(entry.child.pid, &status, 0));
    break;
  }
  if (entry.child.stdout_fd >= 0) close(entry.child.stdout_fd);
}

}  // namespace switchtower
