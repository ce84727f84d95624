// What the controller asks of a compiler: StableHLO in, a portable executable out.
//
// Place:    compiler; the controller sees this header alone, the implementation is a pool of child processes
//           with a cache in front.
// Threads:  Compile from any thread; `done` runs once, on any thread, perhaps before Compile returns.
// Errors:   the program's own fault is INVALID_ARGUMENT or UNIMPLEMENTED with a reason; a crash of the
//           compiler is an error of that program alone.
#pragma once

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "types/device.h"
#include "types/ids.h"
#include "types/program.h"

namespace switchtower {

struct CompileRequest {
  std::string module;   // as sent by the client: a StableHLO portable artifact
  std::string options;  // serialised xla.CompileOptionsProto
  DeviceType device_type;
  SessionId session = {};  // who asks: sessions take turns
};

class CompileService {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const CompiledProgram>>)>;
  virtual ~CompileService() = default;
  // The result doesn't depend on which devices the options assign, only on how many.
  virtual void Compile(CompileRequest request, Done done) = 0;
  // The session has ended: its `done`s run with Cancelled, if they haven't yet, and what nobody else waits for isn't
  // compiled any further. It asks for nothing after this.
  virtual void EndSession(SessionId session) = 0;
  // Programs of the session that no compiler has begun with.
  virtual size_t Waiting(SessionId session) = 0;
};

}  // namespace switchtower
