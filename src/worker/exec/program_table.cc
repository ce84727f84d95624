#include "worker/exec/program_table.h"

#include <utility>

#include <fmt/format.h>

namespace switchtower {

void ProgramTable::Load(LoadProgram command, OnFailed on_failed) {
  std::shared_ptr<ProgramSlot>& slot = slots_[command.program];
  if (slot != nullptr) {
    const std::optional<absl::Status> loaded = slot->loaded.Peek();
    if (!loaded.has_value() || loaded->ok()) return;
  }
  slot = std::make_shared<ProgramSlot>();
  slot->name = command.name;
  slot->num_parameters = command.num_parameters;
  slot->num_results = command.num_results;
  slot->calls_client = command.calls_client;
  const bool posted = loaders_.Post(
      [&engine = engine_, slot = slot, command = std::move(command), on_failed = std::move(on_failed)]() mutable {
        absl::StatusOr<EngineProgramPtr> program = engine.LoadProgram(*command.executable);
        command.executable = nullptr;
        if (program.ok() && (*program)->num_outputs() != command.num_results) {
          program = absl::InvalidArgumentError(fmt::format("program {} was announced with {} results and has {}",
                                                           slot->name, command.num_results, (*program)->num_outputs()));
        }
        if (!program.ok()) {
          on_failed(command.program, program.status());
          slot->loaded.Set(program.status());
          return;
        }
        slot->program = *std::move(program);
        slot->loaded.Set(absl::OkStatus());
      });
  if (!posted) slot->loaded.Set(absl::CancelledError("the worker is stopping"));
}

std::shared_ptr<ProgramSlot> ProgramTable::Find(const ProgramId& id) const {
  auto it = slots_.find(id);
  return it == slots_.end() ? nullptr : it->second;
}

}  // namespace switchtower
