#include "compiler/caching_compile_service.h"

#include <utility>

#include "base/log.h"
#include "compiler/compile_error.h"
#include "compiler/options.h"
#include "compiler/program_key.h"

namespace switchtower {
namespace {

constexpr const char* kSessionEnded = "the session ended before the program was compiled";

uint64_t BytesOf(const CompiledProgram& program) {
  // The descriptions are small beside code and text; a round sum stands for them.
  return program.executable.size() + program.hlo_text.size() + 4096 +
         512 * (program.info.parameters.size() + program.info.results.size());
}

}  // namespace

CachingCompileService::CachingCompileService(Options options, std::unique_ptr<ProgramCompiler> compiler,
                                             std::unique_ptr<ProgramCache> cache)
    : options_(std::move(options)),
      cache_(std::move(cache)),
      compiler_(std::move(compiler)),
      pool_("programs", options_.threads) {}

CachingCompileService::~CachingCompileService() { compiler_->Stop(); }

void CachingCompileService::Compile(CompileRequest request, Done done) {
  {
    MutexLock lock(mutex_);
    ++stats_.requests;
    ++entering_[request.session].count;
  }
  pool_.Post([this, request = std::move(request), done = std::move(done)]() mutable {
    LookUp(std::move(request), std::move(done));
  });
}

bool CachingCompileService::Enter(SessionId session) {
  auto it = entering_.find(session);
  const bool ended = it->second.ended;
  if (--it->second.count == 0) entering_.erase(it);
  return !ended;
}

void CachingCompileService::LookUp(CompileRequest request, Done done) {
  const SessionId session = request.session;
  const absl::StatusOr<ClientOptions> options = ParseClientOptions(request.options);
  absl::Status refused = options.ok() ? CheckPartitions(*options) : options.status();
  ProgramId id;
  if (refused.ok()) id = ProgramKey(request.module, *options, request.device_type, options_.compiler_version);
  Program resident;
  uint64_t joined = 0, number = 0;
  {
    MutexLock lock(mutex_);
    if (!Enter(session) && refused.ok()) refused = absl::CancelledError(kSessionEnded);
    if (!refused.ok()) {
      ++stats_.failed;
    } else if (resident = FindResident(id); resident != nullptr) {
      ++stats_.memory_hits;
    } else {
      Search& search = searches_[id];
      if (search.waiters.empty()) {
        search.number = number = ++last_search_;
      } else {
        ++stats_.joined;
        joined = search.number;
      }
      search.waiters.push_back({session, std::move(done)});
    }
  }
  if (!refused.ok()) {
    done(AsCompileError(refused));
  } else if (resident != nullptr) {
    done(std::move(resident));
  } else if (joined != 0) {
    compiler_->Join(joined, session);
  } else if (Program cached = cache_ == nullptr ? nullptr : cache_->Get(id); cached != nullptr) {
    {
      MutexLock lock(mutex_);
      ++stats_.disk_hits;
    }
    Finish(number, id, std::move(cached));
  } else {
    CompileAnew(number, id, std::move(request));
  }
}

void CachingCompileService::CompileAnew(uint64_t number, const ProgramId& id, CompileRequest request) {
  compiler_->Compile(number, id, std::move(request), [this, number, id](absl::StatusOr<Program> result) {
    Program program;
    {
      MutexLock lock(mutex_);
      ++(result.ok() ? stats_.compiled : stats_.failed);
    }
    if (result.ok()) program = *result;
    Finish(number, id, std::move(result));
    // The clients have their answer; the file can wait for a thread.
    if (program != nullptr && cache_ != nullptr) {
      pool_.Post([this, program = std::move(program)] { cache_->Put(*program); });
    }
  });
  std::vector<SessionId> sessions;
  {
    MutexLock lock(mutex_);
    if (IsWanted(number, id)) {
      for (const Waiter& waiter : searches_[id].waiters) sessions.push_back(waiter.session);
    }
  }
  // What came or went between the search's begin and the call.
  for (SessionId session : sessions) compiler_->Join(number, session);
  if (sessions.empty()) compiler_->GiveUp(number);
}

void CachingCompileService::EndSession(SessionId session) {
  std::vector<Done> ended;
  std::vector<uint64_t> unwanted;
  {
    MutexLock lock(mutex_);
    if (auto it = entering_.find(session); it != entering_.end()) it->second.ended = true;
    for (auto it = searches_.begin(); it != searches_.end();) {
      std::vector<Waiter>& waiters = it->second.waiters;
      for (Waiter& waiter : waiters) {
        if (waiter.session == session) ended.push_back(std::move(waiter.done));
      }
      std::erase_if(waiters, [&](const Waiter& waiter) { return waiter.session == session; });
      if (!waiters.empty()) {
        ++it;
        continue;
      }
      unwanted.push_back(it->second.number);
      searches_.erase(it++);
    }
  }
  for (uint64_t number : unwanted) compiler_->GiveUp(number);
  // Not on the caller's thread, which is ending the session.
  if (ended.empty()) return;
  pool_.Post([ended = std::move(ended)]() mutable {
    for (Done& done : ended) done(absl::CancelledError(kSessionEnded));
  });
}

bool CachingCompileService::IsWanted(uint64_t number, const ProgramId& id) {
  auto it = searches_.find(id);
  return it != searches_.end() && it->second.number == number;
}

void CachingCompileService::Finish(uint64_t number, const ProgramId& id, absl::StatusOr<Program> result) {
  std::vector<Waiter> waiters;
  {
    MutexLock lock(mutex_);
    if (IsWanted(number, id)) {
      waiters = std::move(searches_[id].waiters);
      searches_.erase(id);
    }
    if (result.ok()) Keep(*result);
  }
  for (Waiter& waiter : waiters) waiter.done(result);
}

CachingCompileService::Program CachingCompileService::FindResident(const ProgramId& id) {
  auto it = by_id_.find(id);
  if (it == by_id_.end()) return nullptr;
  residents_.splice(residents_.begin(), residents_, it->second);
  return it->second->program;
}

void CachingCompileService::Keep(const Program& program) {
  const uint64_t bytes = BytesOf(*program);
  if (bytes > options_.memory_bytes_max || by_id_.contains(program->id)) return;
  residents_.push_front({program->id, program, bytes});
  by_id_[program->id] = residents_.begin();
  stats_.memory_bytes += bytes;
  while (stats_.memory_bytes > options_.memory_bytes_max) {
    stats_.memory_bytes -= residents_.back().bytes;
    by_id_.erase(residents_.back().id);
    residents_.pop_back();
  }
}

CachingCompileService::Stats CachingCompileService::stats() {
  MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.in_progress = searches_.size();
  return stats;
}

}  // namespace switchtower
