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
  // `id` becomes the result's id and fingerprint.
  virtual void Compile(const ProgramId& id, CompileRequest request, Done done) = 0;
  // Fails what isn't finished, and all that comes later, with Cancelled.
  virtual void Stop() = 0;
};

}  // namespace switchtower
