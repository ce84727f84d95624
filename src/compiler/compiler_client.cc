#include "compiler/compiler_client.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strand.h"
#include "compiler/compile_error.h"
#include "compiler/compiler_process.h"
#include "compiler/frame_io.h"
#include "compiler/program_proto.h"

namespace switchtower {
namespace {

int SlotsOf(const CompilerClient::Options& options) {
  if (options.max_children > 0) return options.max_children;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 16);
}

void Signal(const UniqueFd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event.get(), &one, sizeof(one));
}

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

}  // namespace

std::string GuessProgramName(std::string_view module) {
  // jax's names begin so; both MLIR text ("@jit_f") and bytecode ("\0jit_f\0") hold them in one piece.
  for (std::string_view prefix : {"jit_", "pmap_", "xla_"}) {
    for (size_t at = module.find(prefix); at != std::string_view::npos; at = module.find(prefix, at + 1)) {
      if (at > 0 && IsNameByte(module[at - 1])) continue;
      size_t end = at;
      while (end < module.size() && end - at < 100 && IsNameByte(module[end])) ++end;
      return std::string(module.substr(at, end - at));
    }
  }
  return fmt::format("a program of {} bytes", module.size());
}

CompilerClient::CompilerClient(Options options)
    : options_(std::move(options)),
      max_slots_(2 * SlotsOf(options_)),
      queue_(static_cast<size_t>(SlotsOf(options_)), static_cast<size_t>(SlotsOf(options_))) {
  CHECK(!options_.command.empty());
}

CompilerClient::~CompilerClient() { Stop(); }

void CompilerClient::Compile(uint64_t number, const ProgramId& id, CompileRequest request, Done done) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    const size_t waiting = queue_.waiting(request.session);
    if (stopping_) {
      refused = absl::CancelledError("the compiler is shutting down");
    } else if (waiting >= options_.max_waiting) {
      refused = absl::ResourceExhaustedError(fmt::format("{} programs wait to be compiled already", waiting));
    } else {
      queue_.Add(std::make_shared<CompileJob>(CompileJob{number, id, std::move(request), std::move(done), {}}));
      WakeSlot();
    }
  }
  if (!refused.ok()) done(refused);
}

void CompilerClient::Join(uint64_t number, SessionId session) {
  MutexLock lock(mutex_);
  queue_.Join(number, session);
  WakeSlot();
}

void CompilerClient::GiveUp(uint64_t number) {
  CompileQueue::JobPtr job;
  {
    MutexLock lock(mutex_);
    job = queue_.Find(number);
    if (job == nullptr) return;
    if (!queue_.Drop(number)) {
      Signal(job->given_up);  // its slot hears of it
      return;
    }
    ++stats_.failed;
  }
  job->done(absl::CancelledError("the compile was given up: nobody waits for it any more"));
}

size_t CompilerClient::Waiting(SessionId session) {
  MutexLock lock(mutex_);
  return queue_.waiting(session);
}

void CompilerClient::Warm() {
  MutexLock lock(mutex_);
  warm_ = true;
  if (live_slots_ == 0 && !stopping_) {
    ++live_slots_;
    threads_.emplace_back([this] { RunSlot(); });
  }
}

void CompilerClient::Stop() {
  std::vector<std::thread> threads;
  std::vector<CompileQueue::JobPtr> unstarted;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    for (CompileQueue::JobPtr& job : queue_.all()) {
      if (queue_.Drop(job->number)) {
        unstarted.push_back(std::move(job));
      } else {
        Signal(job->given_up);
      }
    }
    wake_.NotifyAll();
  }
  for (const CompileQueue::JobPtr& job : unstarted) job->done(absl::CancelledError("the compiler is shutting down"));
  for (std::thread& thread : threads) thread.join();
}

CompilerClient::Stats CompilerClient::stats() {
  MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.waiting = queue_.waiting();
  return stats;
}

void CompilerClient::WakeSlot() {
  const size_t startable = queue_.startable();
  if (startable == 0) return;
  wake_.NotifyOne();
  if (static_cast<size_t>(idle_slots_) >= startable || live_slots_ >= max_slots_) return;
  ++live_slots_;
  threads_.emplace_back([this] { RunSlot(); });
}

void CompilerClient::RunSlot() {
  NameThread("compiler");
  std::unique_ptr<CompilerProcess> child;
  bool warm_up = false;
  bool counted_idle = false;
  for (;;) {
    CompileQueue::JobPtr job;
    std::unique_ptr<CompilerProcess> unneeded;  // ends without the lock, which sessions take
    {
      MutexLock lock(mutex_);
      if (child == nullptr && warm_ && stats_.children == 0) warm_up = true;
      const auto idle_since = std::chrono::steady_clock::now();
      if (!counted_idle) ++idle_slots_;
      counted_idle = false;
      while (!stopping_ && queue_.startable() == 0 && !warm_up && unneeded == nullptr) {
        wake_.WaitFor(mutex_, options_.idle_timeout);
        // The thread stays (it is joined by Stop), its process goes; one process is kept warm.
        const bool idle_long = std::chrono::steady_clock::now() - idle_since >= options_.idle_timeout;
        if (idle_long && child != nullptr && stats_.children > 1) {
          --stats_.children;
          unneeded = std::move(child);
        }
      }
      if (unneeded != nullptr) {
        counted_idle = true;
        continue;
      }
      --idle_slots_;
      if (stopping_) {
        if (child != nullptr) --stats_.children;
        return;
      }
      job = queue_.Take();
      if (job != nullptr) {
        warm_up = false;
        ++stats_.running;
        job->given_up = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        WakeSlot();  // the next may start too
      }
    }
    const bool had_child = child != nullptr;
    if (warm_up) {
      warm_up = false;
      auto started = CompilerProcess::Start(options_.command);
      MutexLock lock(mutex_);
      warm_ = false;
      if (started.ok()) {
        child = *std::move(started);
        ++stats_.children;
      }
      continue;
    }
    absl::StatusOr<std::shared_ptr<const CompiledProgram>> result =
        absl::ResourceExhaustedError("the proxy has too many files open to compile a program");
    if (job->given_up.valid()) result = RunJob(*job, child);
    {
      MutexLock lock(mutex_);
      queue_.Ended(*job);
      --stats_.running;
      ++(result.ok() ? stats_.compiled : stats_.failed);
      stats_.children += static_cast<size_t>(child != nullptr) - static_cast<size_t>(had_child);
      // Idle before the caller knows, so that its next program comes to this child and starts no other.
      ++idle_slots_;
      counted_idle = true;
      WakeSlot();  // a program of several sessions has ended: each of them may have another that may start
    }
    job->done(result.ok() ? std::move(result) : AsCompileError(result.status()));
  }
}

absl::StatusOr<std::shared_ptr<const CompiledProgram>> CompilerClient::RunJob(CompileJob& job,
                                                                              std::unique_ptr<CompilerProcess>& child) {
  compiler::CompileCall call;
  call.set_program_hash(job.id.hash);
  const std::string name = GuessProgramName(job.request.module);
  call.set_module(std::move(job.request.module));
  call.set_options(std::move(job.request.options));
  if (call.ByteSizeLong() > kMaxFrameBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("{} has {} bytes, a program of more than 2 GiB can't be compiled", name, call.ByteSizeLong()));
  }
  const std::string message = call.SerializeAsString();
  // A child that died while it had nothing to do says nothing about this program.
  if (child != nullptr && !child->IsReady()) child.reset();
  if (child == nullptr) {
    ASSIGN_OR_RETURN(child, CompilerProcess::Start(options_.command));
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::string> answer = child->Exchange(message, start + options_.timeout, job.given_up.get());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (answer.ok()) {
    compiler::CompileAnswer proto;
    const bool parsed = proto.ParseFromString(*answer);
    if (parsed && proto.code() != 0) {
      return absl::Status(static_cast<absl::StatusCode>(proto.code()), proto.message());
    }
    absl::StatusOr<CompiledProgram> program =
        parsed ? ProgramOf(std::move(proto), job.id)
               : absl::FailedPreconditionError("the compiler's answer can't be read");
    if (!program.ok()) {
      child.reset();  // who says nonsense once isn't trusted with the next program, which may be somebody else's
      return program.status();
    }
    LogDebug("compiled {} for {} partitions in {:.3f} s", program->info.name, program->info.num_partitions, seconds);
    return std::make_shared<const CompiledProgram>(*std::move(program));
  }
  child.reset();
  switch (answer.status().code()) {
    case absl::StatusCode::kCancelled:
      return absl::CancelledError("the compile was given up: nobody waits for it any more");
    case absl::StatusCode::kDeadlineExceeded:
      LogWarn("compiling {} took longer than {} s, its compiler was ended", name, options_.timeout.count() / 1000);
      return absl::DeadlineExceededError(fmt::format("compiling {} took longer than {} s and was given up", name,
                                                     static_cast<double>(options_.timeout.count()) / 1000));
    default:
      break;
  }
  const std::string how(answer.status().message().data(), answer.status().message().size());
  LogWarn("the compiler ended while compiling {}, {}", name, how);
  {
    MutexLock lock(mutex_);
    ++stats_.crashed;
  }
  return absl::FailedPreconditionError(
      fmt::format("the compiler ended ({}) while compiling {}; this program can't be compiled", how, name));
}

}  // namespace switchtower
