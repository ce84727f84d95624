#include "compiler/caching_compile_service.h"

#include <utility>

#include "base/log.h"
#include "compiler/compile_error.h"
#include "compiler/options.h"
#include "compiler/program_key.h"

namespace switchtower {
namespace {

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
  }
  pool_.Post([this, request = std::move(request), done = std::move(done)]() mutable {
    LookUp(std::move(request), std::move(done));
  });
}

void CachingCompileService::LookUp(CompileRequest request, Done done) {
  const absl::StatusOr<ClientOptions> options = ParseClientOptions(request.options);
  const absl::Status status = options.ok() ? CheckPartitions(*options) : options.status();
  if (!status.ok()) {
    {
      MutexLock lock(mutex_);
      ++stats_.failed;
    }
    done(AsCompileError(status));
    return;
  }
  const ProgramId id = ProgramKey(request.module, *options, request.device_type, options_.compiler_version);
  Program resident;
  {
    MutexLock lock(mutex_);
    resident = FindResident(id);
    if (resident == nullptr) {
      std::vector<Done>& waiting = in_progress_[id];
      waiting.push_back(std::move(done));
      if (waiting.size() > 1) {
        ++stats_.joined;
        return;
      }
    } else {
      ++stats_.memory_hits;
    }
  }
  if (resident != nullptr) {
    done(std::move(resident));
    return;
  }
  if (cache_ != nullptr) {
    if (Program cached = cache_->Get(id); cached != nullptr) {
      {
        MutexLock lock(mutex_);
        ++stats_.disk_hits;
      }
      Finish(id, std::move(cached));
      return;
    }
  }
  compiler_->Compile(id, std::move(request), [this, id](absl::StatusOr<Program> result) {
    Program program;
    {
      MutexLock lock(mutex_);
      ++(result.ok() ? stats_.compiled : stats_.failed);
    }
    if (result.ok()) program = *result;
    Finish(id, std::move(result));
    // The clients have their answer; the file can wait for a thread.
    if (program != nullptr && cache_ != nullptr) {
      pool_.Post([this, program = std::move(program)] { cache_->Put(*program); });
    }
  });
}

void CachingCompileService::Finish(const ProgramId& id, absl::StatusOr<Program> result) {
  std::vector<Done> waiting;
  {
    MutexLock lock(mutex_);
    auto it = in_progress_.find(id);
    if (it != in_progress_.end()) {
      waiting = std::move(it->second);
      in_progress_.erase(it);
    }
    if (result.ok()) Keep(*result);
  }
  for (Done& done : waiting) done(result);
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
  stats.in_progress = in_progress_.size();
  return stats;
}

}  // namespace switchtower
