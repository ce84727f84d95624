#include "controller/programs/program_directory.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::Status CheckType(const WorkerLink& link, const PlacedProgram& placed) {
  const DeviceType& have = link.info.device_type;
  const DeviceType& want = placed.compiled_for;
  if (have.platform == want.platform && have.device_kind == want.device_kind &&
      have.instruction_set == want.instruction_set) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("{} was compiled for {} ({}, {}), but {} has {} ({}, {}); compile it again in a new session",
                  placed.program->info.name, want.device_kind, want.platform, want.instruction_set, link.name,
                  have.device_kind, have.platform, have.instruction_set));
}

}  // namespace

void ProgramDirectory::Retain(const PlacedProgram& placed) {
  Program& program = programs_[placed.program->id];
  ++program.uses;
  program.program = placed.program;
}

std::vector<ProgramSnapshot> ProgramDirectory::Describe() const {
  std::vector<ProgramSnapshot> programs;
  for (const auto& [id, program] : programs_) {
    if (program.program == nullptr) continue;
    const ProgramInfo& info = program.program->info;
    programs.push_back(
        {id, info.name, info.source, info.num_partitions, program.uses, static_cast<int32_t>(program.loaded.size())});
  }
  std::sort(programs.begin(), programs.end(), [](const ProgramSnapshot& a, const ProgramSnapshot& b) {
    return std::tie(a.name, a.id) < std::tie(b.name, b.id);
  });
  return programs;
}

absl::Status ProgramDirectory::EnsureLoaded(const WorkerLinkPtr& link, const PlacedProgram& placed) {
  Program& program = programs_[placed.program->id];
  auto [it, added] = program.loaded.try_emplace(link->info.id, link);
  if (!added) return absl::OkStatus();
  if (absl::Status status = CheckType(*link, placed); !status.ok()) {
    program.loaded.erase(it);
    return status;
  }
  if (program.command == nullptr) {
    LoadProgram load;
    load.program = placed.program->id;
    load.name = placed.program->info.name;
    load.executable = std::shared_ptr<const std::string>(placed.program, &placed.program->executable);
    load.num_parameters = static_cast<uint32_t>(placed.program->info.parameters.size());
    load.num_results = static_cast<uint32_t>(placed.program->info.results.size());
    load.calls_client = !placed.program->info.host_callbacks.empty();
    program.command = std::make_shared<const SharedCommand>(WorkerCommand(std::move(load)));
  }
  link->Send(program.command);
  return absl::OkStatus();
}

absl::Status ProgramDirectory::EnsureLoaded(GangId gang, const std::vector<WorkerLinkPtr>& links,
                                            const PlacedProgram& placed) {
  if (auto it = programs_.find(placed.program->id); it != programs_.end() && it->second.gangs.contains(gang)) {
    return absl::OkStatus();
  }
  for (const WorkerLinkPtr& link : links) RETURN_IF_ERROR(EnsureLoaded(link, placed));
  programs_[placed.program->id].gangs.insert(gang);
  return absl::OkStatus();
}

void ProgramDirectory::Release(const ProgramId& id) {
  auto it = programs_.find(id);
  if (it == programs_.end() || --it->second.uses > 0) return;
  auto command = std::make_shared<const SharedCommand>(WorkerCommand(UnloadProgram{id}));
  for (const auto& [worker, link] : it->second.loaded) link->Send(command);
  programs_.erase(it);
}

void ProgramDirectory::DropWorker(WorkerId worker) {
  for (auto& [id, program] : programs_) {
    program.loaded.erase(worker);
    program.gangs.clear();
  }
}

}  // namespace switchtower
