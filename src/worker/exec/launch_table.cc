#include "worker/exec/launch_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace switchtower {

// Hears of launches on any thread and brings it to the table. One for each controller: when that is gone, its
// launches still end, but nobody is told.
class LaunchTable::Observer : public LaunchObserver, public std::enable_shared_from_this<Observer> {
 public:
  explicit Observer(LaunchTable& table)
      : table_(table),
        intake_(table.parts_.intake),
        collectives_(table.parts_.collectives),
        host_calls_(*table.parts_.host_calls) {}

  void OnLaunchFailed(const LaunchState& launch, const absl::Status& cause, bool origin) override {
    if (collectives_ != nullptr) collectives_->CancelLaunch(launch.id, cause);
    host_calls_.CancelLaunch(launch.id, cause);
    intake_->Post([self = shared_from_this(), event = LaunchFailed{launch.id, launch.session, cause, origin}] {
      if (self->muted) return;
      if (event.origin) LogInfo("launch {} failed: {}", event.launch, event.cause.ToString());
      self->table_.emit_(event);
    });
  }
  void OnLaunchEnded(const LaunchState& launch) override {
    if (collectives_ != nullptr) collectives_->LaunchEnded(launch.id);
    host_calls_.LaunchEnded(launch.id);
    intake_->RunOrPost([self = shared_from_this(), id = launch.id] { self->table_.Ended(id); });
  }

  bool muted = false;  // intake

 private:
  LaunchTable& table_;
  const std::shared_ptr<IntakeQueue> intake_;
  CollectiveEngine* const collectives_;
  HostCallTable& host_calls_;
};

LaunchTable::LaunchTable(Parts parts, Emit emit)
    : parts_(std::move(parts)),
      emit_(std::move(emit)),
      observer_(std::make_shared<Observer>(*this)),
      leftovers_(parts_.cancel_grace) {
  for (int32_t ordinal = 0; ordinal < parts_.engine->device_count(); ++ordinal) {
    devices_.push_back(std::make_unique<DeviceQueue>(*parts_.engine, parts_.collectives, ordinal));
  }
}

LaunchTable::~LaunchTable() = default;

void LaunchTable::DefineGang(switchtower::DefineGang command) {
  Gang gang;
  for (size_t rank = 0; rank < command.ranks.size(); ++rank) {
    const PhysicalDevice& device = command.ranks[rank];
    if (device.worker != parts_.self) continue;
    if (device.ordinal < 0 || device.ordinal >= static_cast<int32_t>(devices_.size())) {
      LogError("gang {} names device {} of {}, not defined", command.gang.value, device.ordinal, devices_.size());
      return;
    }
    gang.local_ranks.push_back(static_cast<int>(rank));
  }
  gang.table = std::make_shared<const GangTable>(GangTable{command.gang, parts_.self, std::move(command.ranks)});
  gangs_[command.gang] = std::move(gang);
}

absl::Status LaunchTable::Check(const switchtower::Launch& command, const Gang* gang,
                                const ProgramSlot* program) const {
  if (command.id <= newest_) {
    return absl::InvalidArgumentError(fmt::format("launch {} came after launch {}", command.id, newest_));
  }
  if (gang == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("launch {} names gang {}, which this worker doesn't know", command.id, command.gang.value));
  }
  if (gang->local_ranks.empty()) return absl::OkStatus();
  if (program == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("launch {} names program {}, which this worker never loaded", command.id, command.program.hash));
  }
  if (command.arguments.size() != program->num_parameters || command.results.size() != program->num_results) {
    return absl::InvalidArgumentError(fmt::format("launch {} has {} arguments and {} results, program {} has {} and {}",
                                                  command.id, command.arguments.size(), command.results.size(),
                                                  program->name, program->num_parameters, program->num_results));
  }
  for (uint32_t position : command.donated) {
    if (position >= command.arguments.size()) {
      return absl::InvalidArgumentError(fmt::format("launch {} donates a parameter it doesn't have", command.id));
    }
  }
  return absl::OkStatus();
}

void LaunchTable::Refuse(const switchtower::Launch& command, const Gang* gang, const absl::Status& why) {
  LogWarn("launch refused: {}", why.ToString());
  if (gang != nullptr) {
    for (int rank : gang->local_ranks) {
      for (ArrayId result : command.results) {
        parts_.store->Promise({command.session, result}, gang->table->ranks[rank].ordinal)->Fail(why);
      }
    }
  }
  emit_(LaunchFailed{command.id, command.session, why, /*origin=*/true});
}

void LaunchTable::Launch(switchtower::Launch command) {
  auto found = gangs_.find(command.gang);
  const Gang* gang = found == gangs_.end() ? nullptr : &found->second;
  std::shared_ptr<ProgramSlot> program = parts_.programs->Find(command.program);
  const bool in_order = command.id > newest_;
  const absl::Status status = Check(command, gang, program.get());
  if (in_order) {
    newest_ = command.id;
    order_.push_back({command.id, command.awaited, /*ended=*/!status.ok() || gang->local_ranks.empty()});
  }
  if (!status.ok()) Refuse(command, gang, status);
  if (!status.ok() || gang->local_ranks.empty()) return Advance();

  if (parts_.collectives != nullptr) parts_.collectives->LaunchBegins(command.id, gang->table);
  auto state = std::make_shared<LaunchState>(command.id, command.session, observer_);
  running_[command.id] = state;
  std::vector<RankTaskPtr> tasks;
  tasks.reserve(gang->local_ranks.size());
  for (int rank : gang->local_ranks) tasks.push_back(MakeTask(command, *gang, rank, state, program));
  state->SetTasks(tasks);
  for (RankTaskPtr& task : tasks) {
    DeviceQueue* queue = task->queue;
    queue->Push(std::move(task));
  }
}

RankTaskPtr LaunchTable::MakeTask(const switchtower::Launch& command, const Gang& gang, int rank,
                                  const std::shared_ptr<LaunchState>& state, std::shared_ptr<ProgramSlot> program) {
  const int32_t ordinal = gang.table->ranks[rank].ordinal;
  auto task =
      std::make_shared<RankTask>(state, ordinal, command.id, rank, gang.table, parts_.collectives, parts_.host_calls);
  task->queue = devices_[ordinal].get();
  task->program = std::move(program);
  task->aside = task->program->calls_client;
  task->arguments.reserve(command.arguments.size());
  for (ArrayId argument : command.arguments) {
    task->arguments.push_back(parts_.store->Find({command.session, argument}, ordinal));
    ++task->arguments.back()->uses;
    task->aside |= task->arguments.back()->from_aside;
  }
  // A permission isn't used where another array or another argument shares the buffer.
  task->may_donate.assign(command.arguments.size(), false);
  for (uint32_t position : command.donated) {
    const BufferEntry& entry = *task->arguments[position];
    task->may_donate[position] = entry.names == 1 && entry.uses == 1;
  }
  for (const BufferEntryPtr& argument : task->arguments) argument->uses = 0;
  if (!command.donated.empty()) {
    const absl::Status donated =
        absl::InvalidArgumentError(fmt::format("array was donated to launch {} ({})", command.id, task->program->name));
    for (uint32_t position : command.donated) {
      parts_.store->ReplaceByError({command.session, command.arguments[position]}, ordinal, donated);
    }
  }
  task->results.reserve(command.results.size());
  for (ArrayId result : command.results) {
    task->results.push_back(parts_.store->Promise({command.session, result}, ordinal));
    task->results.back()->from_aside = task->aside;
  }
  return task;
}

void LaunchTable::Cancel(LaunchId launch, const absl::Status& cause) {
  auto it = running_.find(launch);
  if (it == running_.end()) return;
  const std::shared_ptr<LaunchState> state = it->second;
  state->Fail(cause, /*origin=*/false);
}

void LaunchTable::CancelSession(SessionId session, const absl::Status& cause) {
  Abandon([session](const LaunchState& launch) { return launch.session == session; }, cause);
}

void LaunchTable::Abandon(const std::function<bool(const LaunchState&)>& whose, const absl::Status& cause) {
  std::vector<LaunchId> launches;
  for (const auto& [id, state] : running_) {
    if (!whose(*state)) continue;
    launches.push_back(id);
    state->Fail(cause, /*origin=*/false);
  }
  leftovers_.Add(launches, std::chrono::steady_clock::now());
}

absl::Status LaunchTable::CheckLeftovers() const {
  const std::optional<LaunchId> stuck = leftovers_.Stuck(std::chrono::steady_clock::now());
  if (!stuck.has_value()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("launch {} still runs {} ms after the end of its session {}, and a program can't be stopped", *stuck,
                  parts_.cancel_grace.count(), running_.at(*stuck)->session.value));
}

void LaunchTable::Reset(const absl::Status& cause) {
  observer_->muted = true;
  observer_ = std::make_shared<Observer>(*this);
  Abandon([](const LaunchState&) { return true; }, cause);
  order_.clear();
  gangs_.clear();
  report_times_ = false;
  times_.spans.clear();
}

void LaunchTable::StopDevices() {
  for (const auto& device : devices_) device->Stop();
}

void LaunchTable::Ended(LaunchId launch) {
  if (auto it = running_.find(launch); it != running_.end()) {
    if (report_times_) it->second->AppendTimes(&times_.spans);
    it->second->Release();
    running_.erase(it);
    leftovers_.Ended(launch, std::chrono::steady_clock::now());
  }
  auto it = std::lower_bound(order_.begin(), order_.end(), launch,
                             [](const Ordered& entry, const LaunchId& id) { return entry.id < id; });
  if (it == order_.end() || it->id != launch) return;
  it->ended = true;
  Advance();
}

void LaunchTable::Advance() {
  LaunchId completed;
  bool awaited = false;
  while (!order_.empty() && order_.front().ended) {
    completed = order_.front().id;
    awaited |= order_.front().awaited;
    order_.pop_front();
  }
  // Ahead of the watermark, and also where that is held up by another device.
  if (!times_.spans.empty()) emit_(std::exchange(times_, {}));
  if (completed != LaunchId{}) emit_(Watermark{completed, order_.size(), awaited});
}

void LaunchTable::Describe(WorkerActivity* activity) const {
  for (const auto& device : devices_) activity->devices.push_back(device->Activity());
  if (parts_.collectives == nullptr) return;
  std::vector<PendingCollective> pending = parts_.collectives->Pending();
  std::sort(pending.begin(), pending.end(), [](const auto& a, const auto& b) { return a.since < b.since; });
  if (pending.size() > kActivityEntriesMax) pending.resize(kActivityEntriesMax);
  const auto now = std::chrono::steady_clock::now();
  for (PendingCollective& one : pending) {
    activity->collectives.push_back({one.launch, one.op_id, one.iteration, one.group, std::move(one.kind),
                                     std::move(one.ranks_here), std::move(one.ranks_missing),
                                     std::chrono::duration_cast<std::chrono::microseconds>(now - one.since).count()});
  }
}

uint64_t LaunchTable::executions() const {
  uint64_t count = 0;
  for (const auto& device : devices_) count += device->executions();
  return count;
}

std::vector<uint64_t> LaunchTable::busy_ns() const {
  std::vector<uint64_t> busy;
  busy.reserve(devices_.size());
  for (const auto& device : devices_) busy.push_back(device->busy_ns());
  return busy;
}

}  // namespace switchtower
