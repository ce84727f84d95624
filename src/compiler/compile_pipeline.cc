#include "compiler/compile_pipeline.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "compiler/cost_analysis.h"
#include "compiler/options.h"
#include "hlo/check_module.h"
#include "hlo/hlo_text.h"
#include "hlo/lower_collectives.h"
#include "hlo/native_bounds.h"
#include "hlo/program_info.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {
namespace {

bool HasCollectives(const xla::HloModuleProto& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation.instructions()) {
      if (IsCollective(instruction.opcode())) return true;
    }
  }
  return false;
}

// What only the finished executable knows. Memory statistics that a plug-in doesn't keep stay zero; where it has a
// cost analysis of its own, that replaces our estimate.
absl::Status DescribeExecutable(const pjrt::LoadedExecutable& loaded, CompiledProgram& program) {
  ASSIGN_OR_RETURN(const pjrt::Executable executable, loaded.GetExecutable());
  ASSIGN_OR_RETURN(program.executable, executable.Serialize());
  if (auto memory = executable.GetMemoryStats(); memory.ok()) {
    program.info.memory = *memory;
  } else if (!absl::IsUnimplemented(memory.status())) {
    return memory.status();
  }
  if (auto costs = executable.CostAnalysis(); costs.ok()) {
    if (!costs->empty()) program.info.costs = *std::move(costs);
  } else if (!absl::IsUnimplemented(costs.status())) {
    return costs.status();
  }
  ASSIGN_OR_RETURN(const int64_t results, executable.NumOutputs());
  if (results != static_cast<int64_t>(program.info.results.size())) {
    return absl::FailedPreconditionError("the compiler plug-in contradicts itself about the number of results");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledProgram> CompilePipeline::Compile(const ProgramId& id, std::string_view module,
                                                         std::string_view options) {
  ASSIGN_OR_RETURN(const ClientOptions client, ParseClientOptions(options));
  RETURN_IF_ERROR(CheckPartitions(client));
  CompiledProgram program;
  program.id = id;
  auto lower = [&](std::string_view captured) { return Lower(captured, client.num_partitions, program); };
  ASSIGN_OR_RETURN(const pjrt::LoadedExecutable loaded, partitioner_.Compile(module, client, lower));
  RETURN_IF_ERROR(DescribeExecutable(loaded, program));
  program.info.fingerprint = id.hash;
  return program;
}

absl::StatusOr<std::optional<std::string>> CompilePipeline::Lower(std::string_view captured, int32_t num_partitions,
                                                                  CompiledProgram& program) {
  xla::HloModuleProto module;
  if (!module.ParseFromArray(captured.data(), static_cast<int>(captured.size()))) {
    return absl::FailedPreconditionError("the compiler plug-in showed a module that can't be read");
  }
  ModuleRules rules;
  rules.num_partitions = num_partitions;
  rules.custom_call_targets.insert(custom_call_targets_.begin(), custom_call_targets_.end());
  RETURN_IF_ERROR(CheckModule(module, rules));
  const bool changed = MakeSortsStable(module);
  ASSIGN_OR_RETURN(program.info, DescribeProgram(module, num_partitions));
  ASSIGN_OR_RETURN(program.info.costs, EstimateCosts(module));
  program.hlo_text = ModuleText(module);
  if (num_partitions == 1 && !HasCollectives(module)) {
    return changed ? std::optional(module.SerializeAsString()) : std::nullopt;
  }
  ASSIGN_OR_RETURN(Lowered lowered, LowerCollectives(std::move(module), rules));
  program.info.collectives = std::move(lowered.collectives);
  return lowered.module.SerializeAsString();
}

}  // namespace switchtower
