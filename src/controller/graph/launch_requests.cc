#include "controller/graph/launch_requests.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

// Arguments whose buffers the program may take: what it declares, less what the client keeps and what it passes
// twice.
std::vector<uint32_t> DonatedArguments(SessionContext& session, const ExecuteRequest& request,
                                       const ProgramInfo& info) {
  std::vector<uint32_t> donated;
  if (info.donatable_parameters.empty()) return donated;
  // One pass over the arguments marks each array; the second mark of a call tells that it comes twice.
  const uint64_t once = ++session.last_mark, twice = ++session.last_mark;
  for (ArrayId id : request.arguments) {
    LogicalArray* array = session.arrays.Find(id);
    array->mark = array->mark == once || array->mark == twice ? twice : once;
  }
  std::vector<bool> kept(request.arguments.size(), false);
  for (uint32_t index : request.non_donatable) kept[index] = true;
  for (int32_t parameter : info.donatable_parameters) {
    const auto index = static_cast<uint32_t>(parameter);
    if (!kept[index] && session.arrays.Find(request.arguments[index])->mark == once) donated.push_back(index);
  }
  return donated;
}

absl::Status CheckArguments(SessionContext& session, ExecutableTable::Entry& entry, const ExecuteRequest& request) {
  const ProgramInfo& info = entry.placed().program->info;
  if (request.arguments.size() != info.parameters.size()) {
    return absl::InvalidArgumentError(fmt::format("{} takes {} arguments, {} were given", info.name,
                                                  info.parameters.size(), request.arguments.size()));
  }
  for (size_t i = 0; i < request.arguments.size(); ++i) {
    ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(request.arguments[i]));
    RETURN_IF_ERROR(entry.CheckArgument(i, array->info));
  }
  for (uint32_t index : request.non_donatable) {
    if (index >= request.arguments.size()) {
      return absl::InvalidArgumentError(
          fmt::format("argument {} of {} isn't to be donated, but there is none", index, info.name));
    }
  }
  return absl::OkStatus();
}

// All or none.
absl::Status BindResults(SessionContext& session, const std::vector<ArrayId>& results, const PlacedProgram& placed,
                         LossLedger::Stamp stamp, uint64_t user_context, uint64_t launch) {
  for (size_t i = 0; i < results.size(); ++i) {
    absl::Status status = session.arrays.Bind(results[i], placed.results[i], stamp, user_context, launch);
    if (status.ok()) continue;
    for (size_t bound = 0; bound < i; ++bound) session.arrays.Erase(results[bound]);
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<ExecuteReply> CheckAndLaunch(SessionContext& session, const ExecuteRequest& request,
                                            Callback<absl::Status> on_status) {
  ASSIGN_OR_RETURN(ExecutableTable::Entry * entry, session.programs.Find(request.executable));
  const PlacedProgram& placed = entry->placed();
  const LossLedger::Stamp stamp = session.now();
  RETURN_IF_ERROR(session.arrays.losses().Check(placed.devices->seats, stamp));
  RETURN_IF_ERROR(CheckArguments(session, *entry, request));

  ExecuteReply reply;
  if (request.results.empty()) {
    for (const ArrayInfoPtr& info : placed.results) {
      reply.results.push_back(ArrayId{session.NewHandle()});
      reply.specs.push_back(info->spec);
    }
  } else if (request.results.size() != placed.results.size()) {
    return absl::InvalidArgumentError(fmt::format("{} has {} results, {} handles were given", placed.program->info.name,
                                                  placed.results.size(), request.results.size()));
  } else {
    reply.results = request.results;
  }
  LaunchOp launch;
  launch.number = ++session.last_launch;
  RETURN_IF_ERROR(BindResults(session, reply.results, placed, stamp, request.user_context, launch.number));
  launch.donated = DonatedArguments(session, request, placed.program->info);
  for (uint32_t index : launch.donated) {
    session.arrays.MarkDeleted(*session.arrays.Find(request.arguments[index]), "donated");
  }
  launch.program = entry->placed_ptr();
  launch.arguments = request.arguments;
  launch.results = reply.results;
  launch.client_launch_id = request.launch_id;
  launch.call_site = request.call_site;
  launch.on_status = std::move(on_status);
  session.flow->Began();
  session.Submit(std::move(launch), stamp, request.user_context);
  return reply;
}

}  // namespace

absl::StatusOr<ExecuteReply> ExecuteProgram(SessionContext& session, const ExecuteRequest& request,
                                            Callback<absl::Status> on_status) {
  absl::StatusOr<ExecuteReply> reply = CheckAndLaunch(session, request, std::move(on_status));
  if (reply.ok()) return reply;
  return session.BindErrors(request.results, reply.status(), request.user_context);
}

}  // namespace switchtower
