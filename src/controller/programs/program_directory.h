// Which worker incarnation has which program loaded, over all sessions of one lease.
//
// Place:    controller/programs; used by the sequencer.
// Threads:  the home strand.
// Errors:   FAILED_PRECONDITION where a worker's devices aren't what the program was compiled for.
// Invariants: P-1 a worker gets a program before its first launch and once. P-2 it drops it after the last
//           executable of any session that names it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "controller/api/snapshot.h"
#include "controller/cluster/cluster_view.h"
#include "controller/programs/placed_program.h"

namespace switchtower {

class ProgramDirectory {
 public:
  void Retain(const PlacedProgram& placed);
  // Tells the workers that have it.
  void Release(const ProgramId& program);
  // Sends the program unless the worker has it.
  absl::Status EnsureLoaded(const WorkerLinkPtr& link, const PlacedProgram& placed);
  // The same for all workers of a gang; after the first time it costs one look-up.
  absl::Status EnsureLoaded(GangId gang, const std::vector<WorkerLinkPtr>& links, const PlacedProgram& placed);
  void DropWorker(WorkerId worker);
  std::vector<ProgramSnapshot> Describe() const;
  size_t size() const { return programs_.size(); }

 private:
  struct Program {
    int64_t uses = 0;
    std::shared_ptr<const CompiledProgram> program;
    absl::flat_hash_map<WorkerId, WorkerLinkPtr> loaded;
    absl::flat_hash_set<GangId> gangs;  // all of whose workers have it; none names a worker that was lost since
    std::shared_ptr<const SharedCommand> command;  // encoded once for all workers
  };
  absl::flat_hash_map<ProgramId, Program> programs_;
};

}  // namespace switchtower
