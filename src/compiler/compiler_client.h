// A pool of compiler processes.
//
// XLA ends its process on some programs, so compiling happens in children of the server, one request at a time
// in each: a crash is the error of the program that caused it, and of no other. Children start when there is
// work for them and stay for the next; those that nobody needs for a while end. Sessions take turns (CompileQueue).
//
// Place:    compiler; owned by main, used by CachingCompileService.
// Threads:  any. One thread for each child, which starts it, talks to it and completes its requests.
// Lifetime: Stop (or the destructor) kills the children and fails what is unfinished with Cancelled.
// Errors:   FailedPrecondition "the compiler ended (signal 6, Aborted: ...) while compiling jit_f; ...";
//           DeadlineExceeded; ResourceExhausted: too many requests wait. Otherwise the compiler's answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "compiler/compile_queue.h"
#include "compiler/program_compiler.h"

namespace switchtower {

class CompilerProcess;

class CompilerClient : public ProgramCompiler {
 public:
  struct Options {
    // The child's argv: {"/proc/self/exe", "compiler", "--pjrt-plugin", path}; "--fd N" is appended.
    std::vector<std::string> command;
    // 0: as many as cores, at least 2, at most 16. As many again for sessions that have no program in one.
    int max_children = 0;
    // A program that takes longer is given up.
    std::chrono::milliseconds timeout = std::chrono::minutes(30);
    // Children beyond the first that had no work for so long end.
    std::chrono::milliseconds idle_timeout = std::chrono::minutes(2);
    // Programs of one session that wait.
    size_t max_waiting = 10'000;
  };
  struct Stats {
    uint64_t compiled = 0, failed = 0, crashed = 0;  // one that was given up has failed
    size_t waiting = 0, running = 0, children = 0;
  };

  explicit CompilerClient(Options options);
  ~CompilerClient() override;
  CompilerClient(const CompilerClient&) = delete;
  CompilerClient& operator=(const CompilerClient&) = delete;

  void Compile(uint64_t number, const ProgramId& id, CompileRequest request, Done done) override EXCLUDES(mutex_);
  void Join(uint64_t number, SessionId session) override EXCLUDES(mutex_);
  void GiveUp(uint64_t number) override EXCLUDES(mutex_);
  size_t Waiting(SessionId session) override EXCLUDES(mutex_);
  // Starts one child now, so that the first program doesn't wait for it.
  void Warm() EXCLUDES(mutex_);
  void Stop() override EXCLUDES(mutex_);
  Stats stats() EXCLUDES(mutex_);

 private:
  // Wakes a slot, or starts one, if a job may run now.
  void WakeSlot() REQUIRES(mutex_);
  void RunSlot() EXCLUDES(mutex_);
  absl::StatusOr<std::shared_ptr<const CompiledProgram>> RunJob(CompileJob& job,
                                                                std::unique_ptr<CompilerProcess>& child);

  const Options options_;
  const int max_slots_;

  Mutex mutex_;
  CondVar wake_;
  CompileQueue queue_ GUARDED_BY(mutex_);
  int idle_slots_ GUARDED_BY(mutex_) = 0;
  int live_slots_ GUARDED_BY(mutex_) = 0;
  bool warm_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  Stats stats_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
};

// What to call a program in messages before it is compiled: the module's name if it can be seen in the bytes.
std::string GuessProgramName(std::string_view module);

}  // namespace switchtower
