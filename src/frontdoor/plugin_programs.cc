#include "frontdoor/plugin_programs.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "frontdoor/request_parts.h"

namespace switchtower {
namespace {

absl::Status CheckResults(const ReshardProgram& program, const ExecuteRequest& request) {
  if (request.results.empty() || request.results.size() == program.to.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the program has {} results, not {}", program.to.size(), request.results.size()));
}

// The client takes the results of later executions for what those of the first one were.
absl::Status CheckSame(const std::vector<ArraySpec>& first, const std::vector<ArraySpec>& now) {
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].shape != now[i].shape) {
      return absl::InvalidArgumentError(fmt::format("argument {} is {}; the program was first executed with {}", i,
                                                    now[i].shape.ToString(), first[i].shape.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompileReply> PluginPrograms::Compile(const std::string& data, const DeviceSet& known) {
  ASSIGN_OR_RETURN(ReshardProgram program, ParsePluginProgram(data, known));
  for (const PlacedSharding& placed : program.to) {
    RETURN_IF_ERROR(CheckMemoryKind(session_, placed.memory_kind));
  }
  CompileReply reply;
  reply.executable = session_.NewHandle();
  reply.name = "reshard";
  reply.devices = program.from[0].devices;
  programs_[reply.executable].program = std::move(program);
  return reply;
}

const std::vector<DeviceId>& PluginPrograms::Devices(uint64_t executable) const {
  return programs_.at(executable).program.from[0].devices;
}

std::vector<std::string> PluginPrograms::ResultMemoryKinds(uint64_t executable) const {
  std::vector<std::string> kinds;
  for (const PlacedSharding& placed : programs_.at(executable).program.to) {
    kinds.push_back(placed.memory_kind.empty() ? session_.description().memory_kinds[0] : placed.memory_kind);
  }
  return kinds;
}

absl::StatusOr<ExecuteReply> PluginPrograms::Execute(const ExecuteRequest& request, Callback<absl::Status> on_status) {
  Entry& entry = programs_.at(request.executable);
  RETURN_IF_ERROR(CheckResults(entry.program, request));
  ExecuteReply reply;
  reply.results = request.results;
  const bool drawn = reply.results.empty();
  while (reply.results.size() < entry.program.to.size()) reply.results.push_back(ArrayId{session_.NewHandle()});
  const absl::Status status = Run(entry, request, reply.results);
  if (!status.ok()) {
    // The client never learns of ids that aren't its own.
    if (drawn) session_.Destruct(reply.results).IgnoreError();
    return status;
  }
  if (drawn) reply.specs = entry.results;
  session_.WhenReady(reply.results, std::move(on_status));
  return reply;
}

absl::StatusOr<std::vector<ArraySpec>> PluginPrograms::Describe(const ReshardProgram& program,
                                                                const std::vector<ArrayId>& arguments) const {
  if (arguments.size() != program.to.size()) {
    return absl::InvalidArgumentError(
        fmt::format("the program takes {} arguments, not {}", program.to.size(), arguments.size()));
  }
  std::vector<ArraySpec> specs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // How the argument lies counts, not how the program says that it lies.
    ASSIGN_OR_RETURN(ArraySpec spec, session_.Spec(arguments[i]));
    ASSIGN_OR_RETURN(spec.sharding, ToSharding(program.to[i], spec.shape));
    specs.push_back(std::move(spec));
  }
  return specs;
}

absl::Status PluginPrograms::Run(Entry& entry, const ExecuteRequest& request, const std::vector<ArrayId>& results) {
  absl::StatusOr<std::vector<ArraySpec>> specs = Describe(entry.program, request.arguments);
  absl::Status status = specs.ok() ? CheckSame(entry.results, *specs) : specs.status();
  if (!status.ok()) {
    for (ArrayId result : results) session_.BindError(result, status);
    return status;
  }
  std::vector<bool> donated(results.size(), entry.program.donate);
  for (uint32_t kept : request.non_donatable) {
    if (kept < donated.size()) donated[kept] = false;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    status.Update(session_.Reshard({&request.arguments[i], 1}, {&results[i], 1}, {&(*specs)[i], 1},
                                   donated[i] ? CopySemantics::kDonateInput : CopySemantics::kAlwaysCopy,
                                   request.user_context));
  }
  if (status.ok()) entry.results = *std::move(specs);
  return status;
}

}  // namespace switchtower
