// A modelled worker's devices: launches wait for their inputs, meet their gang, and end.
#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "controller/sim/sim_worker.h"
#include "controller/sim/sim_worker_state.h"

namespace switchtower {

void SimFabric::Meeting::Finish() {
  const size_t size = ranks.size();
  const SimWorker::Task& first = *ranks.begin()->second.second;
  std::vector<SimWords> whole(first.arguments.size());
  for (const auto& [rank, member] : ranks) {
    for (size_t a = 0; a < whole.size(); ++a) {
      const SimWords& part = member.second->arguments[a]->words;
      whole[a].insert(whole[a].end(), part.begin(), part.end());
    }
  }
  std::vector<SimWords> results;
  for (size_t r = 0; r < first.results.size(); ++r) {
    const auto elements = static_cast<size_t>(first.results[r]->bytes) / sizeof(uint32_t) * size;
    results.push_back(SimResult(first.launch->program, whole, r, elements));
  }
  size_t index = 0;
  for (const auto& [rank, member] : std::exchange(ranks, {})) {
    std::vector<SimWords> parts;
    for (const SimWords& result : results) {
      const auto begin = result.begin() + static_cast<ptrdiff_t>(result.size() / size * index);
      parts.emplace_back(begin, begin + static_cast<ptrdiff_t>(result.size() / size));
    }
    ++index;
    member.first->End(member.second, std::move(parts), absl::OkStatus());
  }
}

void SimWorker::Do(const DefineGang& command) {
  Gang& gang = gangs_[command.gang];
  gang = {command.ranks.size(), {}};
  for (size_t rank = 0; rank < command.ranks.size(); ++rank) {
    if (command.ranks[rank].worker == id_) gang.here.push_back({static_cast<int>(rank), command.ranks[rank].ordinal});
  }
}

void SimWorker::Do(const Launch& command) {
  if (command.id <= newest_) fabric_.faults.push_back(fmt::format("launch {} came after {}", command.id, newest_));
  newest_ = command.id;
  auto launch = std::make_shared<LaunchHere>();
  launch->id = command.id;
  launch->session = command.session;
  launch->program = programs_.at(command.program);
  launches_[command.id] = launch;
  const Gang& gang = gangs_.at(command.gang);
  launch->gang_size = gang.size;
  for (const auto& [rank, ordinal] : gang.here) {
    auto task = std::make_shared<Task>();
    task->launch = launch;
    task->rank = rank;
    task->ordinal = ordinal;
    for (ArrayId argument : command.arguments) {
      task->arguments.push_back(Find({command.session, argument}, task->ordinal));
      ++task->arguments.back()->uses;
    }
    task->takes.assign(command.arguments.size(), false);
    for (uint32_t index : command.donated) {
      task->takes[index] = task->arguments[index]->names == 1;
      auto donated = Promise({command.session, command.arguments[index]}, task->ordinal, 0);
      donated->filled = true;
      donated->error = absl::InvalidArgumentError("donated");
    }
    for (ArrayId result : command.results) {
      task->results.push_back(
          Promise({command.session, result}, task->ordinal, fabric_.result_bytes.at(launch->program)));
    }
    launch->tasks.push_back(task);
  }
  launch->open = launch->tasks.size();
  for (const auto& task : launch->tasks) devices_[task->ordinal]->queue.push_back(task);
  const std::vector<std::shared_ptr<Task>> tasks = launch->tasks;
  for (const auto& task : tasks) Advance(task->ordinal);
}

void SimWorker::Advance(int32_t ordinal) {
  Device& device = *devices_[ordinal];
  if (device.current != nullptr || device.queue.empty()) return;
  const auto ready = [](const std::shared_ptr<Task>& task) {
    return std::all_of(task->arguments.begin(), task->arguments.end(),
                       [](const BufferPtr& argument) { return argument->filled; });
  };
  std::vector<size_t> choices;
  const size_t looked_at = fabric_.options.per_device_choice ? device.queue.size() : 1;
  for (size_t i = 0; i < looked_at; ++i) {
    if (ready(device.queue[i])) choices.push_back(i);
  }
  if (choices.empty()) return;
  const size_t choice = choices.size() == 1
                            ? choices[0]
                            : choices[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(fabric_.random)];
  auto it = device.queue.begin() + static_cast<ptrdiff_t>(choice);
  device.current = std::move(*it);
  device.queue.erase(it);
  Start(device.current);
}

void SimWorker::Start(const std::shared_ptr<Task>& task) {
  task->started_ns = fabric_.loop.now_ns();
  for (const BufferPtr& argument : task->arguments) {
    if (argument->error.ok()) continue;
    Fail(*task->launch, argument->error, /*origin=*/true);
    return;
  }
  for (size_t i = 0; i < task->arguments.size(); ++i) {
    if (task->takes[i]) LetGo(*task->arguments[i]);
  }
  for (const BufferPtr& result : task->results) Hold(*result);
  std::shared_ptr<SimFabric::Meeting>& meeting = fabric_.meetings[task->launch->id];
  if (meeting == nullptr) meeting = std::make_shared<SimFabric::Meeting>();
  meeting->ranks[task->rank] = {this, task};
  if (meeting->ranks.size() < task->launch->gang_size) return;
  meeting->complete = true;
  const int64_t duration_ns = fabric_.DurationOf(task->launch->program), now_ns = fabric_.loop.now_ns();
  for (const auto& [rank, member] : meeting->ranks) {
    DeviceUse& use = member.first->devices_[member.second->ordinal]->use;
    if (use.first_start_ns < 0) use.first_start_ns = now_ns;
    use.busy_ns += duration_ns;
    use.last_end_ns = now_ns + duration_ns;
    ++use.launches;
    use.busy_ns_of[task->launch->session] += duration_ns;
  }
  fabric_.loop.After(duration_ns, [&fabric = fabric_, id = task->launch->id, meeting] {
    fabric.meetings.erase(id);
    meeting->Finish();
  });
}

void SimWorker::End(const std::shared_ptr<Task>& task, std::vector<SimWords> results, absl::Status error) {
  if (std::exchange(task->ended, true)) return;
  Device& device = *devices_[task->ordinal];
  if (device.current == task) {
    device.current.reset();
  } else {
    std::erase(device.queue, task);
  }
  for (const BufferPtr& argument : task->arguments) {
    --argument->uses;
    Settle(*argument);
  }
  for (size_t i = 0; i < task->results.size(); ++i) {
    Fill(task->results[i], error.ok() ? std::move(results[i]) : SimWords{}, error);
  }
  LaunchHere& launch = *task->launch;
  if (report_times_ && task->started_ns >= 0) {
    Emit(LaunchTimes{{{launch.id, task->ordinal, task->started_ns, fabric_.loop.now_ns()}}});
  }
  if (--launch.open == 0) {
    LaunchId completed;
    while (!launches_.empty() && launches_.begin()->second->open == 0) {
      completed = launches_.begin()->first;
      launches_.erase(launches_.begin());
    }
    if (completed != LaunchId{}) Emit(Watermark{completed});
  }
  Advance(task->ordinal);
}

void SimWorker::Fail(LaunchHere& launch, const absl::Status& cause, bool origin) {
  if (std::exchange(launch.failed, true)) return;
  Emit(LaunchFailed{launch.id, launch.session, cause, origin});
  auto meeting = fabric_.meetings.find(launch.id);
  if (meeting != fabric_.meetings.end() && meeting->second->complete) return;  // it runs, and ends by itself
  const std::vector<std::shared_ptr<Task>> tasks = launch.tasks;
  for (const auto& task : tasks) {
    if (meeting != fabric_.meetings.end()) meeting->second->ranks.erase(task->rank);
  }
  if (meeting != fabric_.meetings.end() && meeting->second->ranks.empty()) fabric_.meetings.erase(meeting);
  for (const auto& task : tasks) End(task, {}, cause);
}

void SimWorker::Do(const CancelLaunch& command) {
  auto it = launches_.find(command.launch);
  if (it == launches_.end() || it->second->open == 0) return;
  const std::shared_ptr<LaunchHere> launch = it->second;
  Fail(*launch, command.cause, /*origin=*/false);
}

}  // namespace switchtower
