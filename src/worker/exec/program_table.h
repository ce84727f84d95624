// Programs of this worker. Loading is slow, so it runs aside, and launches wait for it at the head of their queue.
//
// Place:    worker/exec, over engine.
// Threads:  the table belongs to the intake; a slot's outcome and program are read anywhere.
// Lifetime: a slot lives as long as a launch needs it, also after UnloadProgram.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "worker/engine/engine.h"
#include "worker/exec/work_queue.h"
#include "worker/store/outcome.h"
#include "worker_api/commands.h"

namespace switchtower {

struct ProgramSlot {
  std::string name;
  uint32_t num_parameters = 0;
  uint32_t num_results = 0;
  bool calls_client = false;
  Outcome loaded;
  EngineProgramPtr program;  // set before `loaded` says OK
};
using ProgramSlotPtr = std::shared_ptr<const ProgramSlot>;

class ProgramTable {
 public:
  using OnFailed = absl::AnyInvocable<void(ProgramId, absl::Status)>;
  ProgramTable(Engine& engine, WorkQueue& loaders) : engine_(engine), loaders_(loaders) {}

  // `on_failed` is called on a loader's thread. A program that is here already, or on its way, isn't loaded again.
  void Load(LoadProgram command, OnFailed on_failed);
  void Unload(const ProgramId& id) { slots_.erase(id); }
  void Clear() { slots_.clear(); }
  // Null if nobody ever loaded it here.
  std::shared_ptr<ProgramSlot> Find(const ProgramId& id) const;

 private:
  Engine& engine_;
  WorkQueue& loaders_;
  absl::flat_hash_map<ProgramId, std::shared_ptr<ProgramSlot>> slots_;
};

}  // namespace switchtower
