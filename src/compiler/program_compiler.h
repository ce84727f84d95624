// Compiles one program, uncached: what CachingCompileService stands on.
//
// Place:    compiler. Implementation: CompilerClient (child processes).
// Threads:  Compile from any thread; `done` runs once, on any thread, perhaps before Compile returns.
// Lifetime: after Stop has returned, each `done` has run.
// Errors:   as CompileService.
#pragma once

#include "compiler/compile_service.h"
#include "types/ids.h"

namespace switchtower {

class ProgramCompiler {
 public:
  using Done = CompileService::Done;
  virtual ~ProgramCompiler() = default;
  // `id` becomes the result's id and fingerprint; `number` is the caller's name for this call, used once.
  virtual void Compile(uint64_t number, const ProgramId& id, CompileRequest request, Done done) = 0;
  // One more session waits for the call: it comes up when the first of them has its turn.
  virtual void Join(uint64_t number, SessionId session) = 0;
  // Nobody waits for the call any more: `done` runs with Cancelled unless it has run.
  virtual void GiveUp(uint64_t number) = 0;
  // Calls of the session, or joined by it, that haven't begun.
  virtual size_t Waiting(SessionId session) = 0;
  // Fails what isn't finished, and all that comes later, with Cancelled.
  virtual void Stop() = 0;
};

}  // namespace switchtower
