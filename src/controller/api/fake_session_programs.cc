// FakeSession's programs and launches.
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "controller/api/fake_session.h"

namespace switchtower {

void FakeSession::Compile(std::string module, std::string options, uint64_t user_context,
                          Callback<absl::StatusOr<CompileReply>> done) {
  auto it = programs_.find(module);
  if (it == programs_.end()) it = programs_.find("");
  if (it == programs_.end()) {
    done(absl::InvalidArgumentError("the fake session doesn't know this program"));
    return;
  }
  CompileReply reply;
  reply.executable = NewHandle();
  reply.name = it->second->info.name;
  reply.fingerprint = it->second->info.fingerprint;
  executables_[reply.executable] = it->second;
  reply.devices = *ProgramDevices(reply.executable);
  done(std::move(reply));
}

absl::StatusOr<std::shared_ptr<const CompiledProgram>> FakeSession::Program(uint64_t executable) {
  auto it = executables_.find(executable);
  if (it == executables_.end()) {
    return absl::InvalidArgumentError(fmt::format("there is no executable {}", executable));
  }
  return it->second;
}

absl::StatusOr<std::vector<DeviceId>> FakeSession::ProgramDevices(uint64_t executable) {
  ASSIGN_OR_RETURN(auto program, Program(executable));
  std::vector<DeviceId> devices;
  for (int i = 0; i < program->info.num_partitions; ++i) devices.push_back(description_.devices.at(i).id);
  return devices;
}

absl::StatusOr<ExecuteReply> FakeSession::Execute(const ExecuteRequest& request, Callback<absl::Status> on_status) {
  RETURN_IF_ERROR(CheckFree(request.results));
  auto program = Program(request.executable);
  if (!program.ok()) return BindAll(request.results, program.status());
  const ProgramInfo& info = (*program)->info;
  auto arguments = FindAll(request.arguments);
  if (!arguments.ok()) return BindAll(request.results, arguments.status());
  if (request.arguments.size() != info.parameters.size()) {
    return BindAll(request.results,
                   absl::InvalidArgumentError(fmt::format("{} takes {} arguments, got {}", info.name,
                                                          info.parameters.size(), request.arguments.size())));
  }
  if (!request.results.empty() && request.results.size() != info.results.size()) {
    return BindAll(request.results, absl::InvalidArgumentError("wrong number of results"));
  }
  ExecuteReply reply;
  std::vector<FakeArray> made;
  for (size_t i = 0; i < info.results.size(); ++i) {
    ArraySpec spec;
    spec.shape = info.results[i].shape;
    spec.sharding.devices = *ProgramDevices(request.executable);
    made.push_back(PendingArray(spec));
    if (i < arguments->size()) made.back() = *(*arguments)[i];
    if (i >= arguments->size()) {
      for (auto& shard : made.back().shards) shard->Fill(std::string(spec.shape.host_bytes(), '\0'));
    }
    reply.results.push_back(request.results.empty() ? ArrayId{NewHandle()} : request.results[i]);
    reply.specs.push_back(made.back().spec);
  }
  for (size_t i = 0; i < made.size(); ++i) RETURN_IF_ERROR(Insert(reply.results[i], std::move(made[i])));
  {
    MutexLock lock(mutex_);
    if (hold_) ++in_flight_;
  }
  on_status(absl::OkStatus());
  return reply;
}

absl::Status FakeSession::DestructExecutable(uint64_t executable) {
  if (executables_.erase(executable) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("there is no executable {}", executable));
}

void FakeSession::HoldLaunches() {
  MutexLock lock(mutex_);
  hold_ = true;
}

void FakeSession::ReleaseLaunches() {
  std::vector<absl::AnyInvocable<void()>> held;
  {
    MutexLock lock(mutex_);
    hold_ = false;
    in_flight_ = 0;
    held.swap(held_);
  }
  for (auto& resume : held) resume();
}

size_t FakeSession::under_way() const {
  MutexLock lock(mutex_);
  return in_flight_;
}

void FakeSession::WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) {
  {
    MutexLock lock(mutex_);
    if (in_flight_ >= bound) {
      held_.push_back(std::move(resume));
      return;
    }
  }
  resume();
}

}  // namespace switchtower
