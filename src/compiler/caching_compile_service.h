// The CompileService of a proxy: memory, then disk, then the compilers.
//
// A request is named by its content. Equal requests that come while the first is being compiled wait for it
// and share its outcome; an error isn't remembered beyond them. A compile that nobody waits for any more is given up.
//
// Place:    compiler; owned by main, used by the controller.
// Threads:  any. Hashing and disk I/O run on a small pool of its own, so a caller on a strand isn't held up.
// Lifetime: the destructor stops the compiler: each `done` has run when it returns.
// Errors:   see CompileService.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/strand.h"
#include "compiler/compile_service.h"
#include "compiler/program_cache.h"
#include "compiler/program_compiler.h"

namespace switchtower {

class CachingCompileService : public CompileService {
 public:
  struct Options {
    // Names the plug-in's build in the key (see PluginVersion).
    std::string compiler_version;
    // Compiled programs kept in memory; those that are in use elsewhere cost nothing more. Small: the disk has them
    // too, and what a session compiled shouldn't stay in the proxy when it has gone.
    uint64_t memory_bytes_max = uint64_t{2} << 20;
    int threads = 2;
  };
  struct Stats {
    uint64_t requests = 0, memory_hits = 0, disk_hits = 0, joined = 0, compiled = 0, failed = 0;
    uint64_t memory_bytes = 0;
    size_t in_progress = 0;
  };

  // `cache` may be null: nothing is kept on disk.
  CachingCompileService(Options options, std::unique_ptr<ProgramCompiler> compiler,
                        std::unique_ptr<ProgramCache> cache);
  ~CachingCompileService() override;

  void Compile(CompileRequest request, Done done) override EXCLUDES(mutex_);
  void EndSession(SessionId session) override EXCLUDES(mutex_);
  size_t Waiting(SessionId session) override { return compiler_->Waiting(session); }
  Stats stats() EXCLUDES(mutex_);

 private:
  using Program = std::shared_ptr<const CompiledProgram>;
  struct Resident {
    ProgramId id;
    Program program;
    uint64_t bytes = 0;
  };

  struct Waiter {
    SessionId session;
    Done done;
  };
  // One look at the disk and, if it isn't there, one call of the compiler.
  struct Search {
    uint64_t number = 0;
    std::vector<Waiter> waiters;
  };
  // Requests of a session that the pool hasn't come to.
  struct Entering {
    size_t count = 0;
    bool ended = false;  // the session
  };

  // On the pool.
  void LookUp(CompileRequest request, Done done) EXCLUDES(mutex_);
  void CompileAnew(uint64_t number, const ProgramId& id, CompileRequest request) EXCLUDES(mutex_);
  // False if the session has ended since it asked.
  bool Enter(SessionId session) REQUIRES(mutex_);
  // Completes everyone who waits for this search, if anyone does.
  void Finish(uint64_t number, const ProgramId& id, absl::StatusOr<Program> result) EXCLUDES(mutex_);
  bool IsWanted(uint64_t number, const ProgramId& id) REQUIRES(mutex_);
  Program FindResident(const ProgramId& id) REQUIRES(mutex_);
  void Keep(const Program& program) REQUIRES(mutex_);

  const Options options_;
  const std::unique_ptr<ProgramCache> cache_;
  const std::unique_ptr<ProgramCompiler> compiler_;
  Mutex mutex_;
  Stats stats_ GUARDED_BY(mutex_);
  // Most recently used first.
  std::list<Resident> residents_ GUARDED_BY(mutex_);
  absl::flat_hash_map<ProgramId, std::list<Resident>::iterator> by_id_ GUARDED_BY(mutex_);
  absl::flat_hash_map<SessionId, Entering> entering_ GUARDED_BY(mutex_);
  absl::flat_hash_map<ProgramId, Search> searches_ GUARDED_BY(mutex_);
  uint64_t last_search_ GUARDED_BY(mutex_) = 0;
  // Last, so that it ends first: its tasks use the rest.
  ThreadPool pool_;
};

}  // namespace switchtower
