#include "worker/exec/device_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/strand.h"

namespace switchtower {

// Two arrivals make an end: the execution's outcome, and the return of Execute.
struct DeviceQueue::Ending {
  explicit Ending(RankTaskPtr task) : task(std::move(task)) {}

  void Arrive() {
    if (missing.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    if (status.ok()) {
      task->launch->End(*task, absl::OkStatus());
    } else {
      Blame(task, 0, std::move(status));
    }
  }

  const RankTaskPtr task;
  absl::Status status;  // written before the execution's arrival
  std::atomic<int> missing{2};
};

DeviceQueue::Taken* DeviceQueue::Shared::Find(const RankTask* task) {
  auto it = std::find_if(taken.begin(), taken.end(), [task](const Taken& one) { return one.task.get() == task; });
  return it == taken.end() ? nullptr : &*it;
}

void DeviceQueue::Shared::Forget(const RankTask* task) {
  if (Taken* found = Find(task); found != nullptr) taken.erase(taken.begin() + (found - taken.data()));
}

DeviceQueue::DeviceQueue(Engine& engine, CollectiveEngine* collectives, int32_t ordinal)
    : engine_(engine), collectives_(collectives), ordinal_(ordinal), shared_(std::make_shared<Shared>()) {
  thread_ = std::thread([this] {
    NameThread(fmt::format("device {}", ordinal_));
    Run();
  });
}

DeviceQueue::~DeviceQueue() { Stop(); }

void DeviceQueue::Push(RankTaskPtr task) {
  {
    MutexLock lock(shared_->mutex);
    if (!shared_->stopping) {
      shared_->tasks.push_back(std::move(task));
    }
  }
  if (task != nullptr) {
    task->launch->Fail(absl::CancelledError("the worker is stopping"), /*origin=*/false);
    return;
  }
  shared_->wake.NotifyAll();
}

void DeviceQueue::Poke() {
  MutexLock lock(shared_->mutex);
  ++shared_->pokes;
  shared_->wake.NotifyAll();
}

void DeviceQueue::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->wake.NotifyAll();
  }
  thread_.join();
  MutexLock lock(shared_->mutex);
  while (shared_->in_flight > 0 || shared_->aside > 0) shared_->wake.Wait(shared_->mutex);
}

void DeviceQueue::Run() {
  while (RankTaskPtr task = Next()) {
    if (task->aside) {
      RunAside(std::move(task));
    } else if (WaitForInputs(task)) {
      Execute(task);
    }
  }
}

void DeviceQueue::RunAside(RankTaskPtr task) {
  {
    MutexLock lock(shared_->mutex);
    while (shared_->aside >= kAsideMax) shared_->wake.Wait(shared_->mutex);
    ++shared_->aside;
  }
  // Stop waits for it.
  std::thread([this, shared = shared_, task = std::move(task)] {
    NameThread(fmt::format("device {} aside", ordinal_));
    if (WaitForInputs(task)) Execute(task);
    MutexLock lock(shared->mutex);
    --shared->aside;
    shared->wake.NotifyAll();
  }).detach();
}

RankTaskPtr DeviceQueue::Next() {
  MutexLock lock(shared_->mutex);
  while (true) {
    if (!shared_->tasks.empty() && shared_->in_flight < kInFlightMax) {
      RankTaskPtr task = std::move(shared_->tasks.front());
      shared_->tasks.pop_front();
      shared_->taken.push_back({task});
      return task;
    }
    // Dropped tasks needn't wait for room, but they do no harm either: what is in flight ends or is cancelled.
    if (shared_->stopping && shared_->tasks.empty()) return nullptr;
    shared_->wake.Wait(shared_->mutex);
  }
}

bool DeviceQueue::WaitForInputs(const RankTaskPtr& task) {
  const bool start = InputsCome(task);
  if (!start) {
    MutexLock lock(shared_->mutex);
    shared_->Forget(task.get());
  }
  return start;
}

bool DeviceQueue::InputsCome(const RankTaskPtr& task) {
  // A dropped task's entries are being let go by whoever dropped it.
  absl::InlinedVector<BufferEntryPtr, 8> arguments;
  if (!task->launch->Arguments(*task, &arguments)) return false;
  auto filled = [shared = shared_, task] {
    MutexLock lock(shared->mutex);
    if (--task->unfilled == 0) shared->wake.NotifyAll();
  };
  auto expect = [&] {
    MutexLock lock(shared_->mutex);
    ++task->unfilled;
  };
  if (!task->program->loaded.Peek().has_value()) {
    expect();
    task->program->loaded.Then([filled](const absl::Status&) { filled(); });
  }
  for (const BufferEntryPtr& argument : arguments) {
    if (argument->filled()) continue;
    expect();
    argument->OnFilled(filled);
  }
  while (true) {
    uint64_t pokes = 0;
    {
      MutexLock lock(shared_->mutex);
      if (task->unfilled == 0) break;
      pokes = shared_->pokes;
      Taken* taken = shared_->Find(task.get());
      if (taken->since_ns == 0) taken->since_ns = DeviceClock::Now();
    }
    // Asked outside of the lock; whoever drops the task pokes after it.
    if (task->launch->IsEnded(*task)) return false;
    MutexLock lock(shared_->mutex);
    while (task->unfilled > 0 && shared_->pokes == pokes) shared_->wake.Wait(shared_->mutex);
  }
  return task->launch->Start(*task);
}

absl::Status DeviceQueue::Gather(const RankTask& task, EngineExecution& execution) {
  const absl::Status loaded = *task.program->loaded.Peek();
  if (!loaded.ok()) return loaded;
  execution.program = task.program->program;
  std::vector<BufferEntry::Content> contents;
  contents.reserve(task.arguments.size());
  for (const BufferEntryPtr& argument : task.arguments) {
    contents.push_back(argument->content());
    const BufferEntry::Content& content = contents.back();
    if (!content.error.ok()) return content.error;
    if (content.buffer == nullptr) return absl::InvalidArgumentError("a string array can't be a program's argument");
    if (content.producer != nullptr) {
      const std::optional<absl::Status> produced = content.producer->Peek();
      if (produced.has_value() && !produced->ok()) return *produced;
    }
  }
  // Nothing fails from here on: what is taken is used.
  execution.arguments.reserve(contents.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    execution.arguments.push_back(std::move(contents[i].buffer));
    if (!task.may_donate[i] || !task.arguments[i]->TryTake()) {
      execution.non_donatable.push_back(static_cast<int64_t>(i));
    }
  }
  return absl::OkStatus();
}

void DeviceQueue::Execute(const RankTaskPtr& task) {
  EngineExecution execution;
  execution.device = ordinal_;
  if (absl::Status status = Gather(*task, execution); !status.ok()) {
    {
      MutexLock lock(shared_->mutex);
      shared_->Forget(task.get());
    }
    task->launch->End(*task, std::move(status));
    return;
  }
  if (collectives_ != nullptr) execution.user_data = {collectives_->user_data_type(), &task->context};
  execution.launch_number = static_cast<int32_t>(task->context.id.number & 0x7fffffff);
  const int64_t started = DeviceClock::Now();
  {
    MutexLock lock(shared_->mutex);
    ++(task->aside ? shared_->aside : shared_->in_flight);
    Taken* taken = shared_->Find(task.get());
    taken->running = true;
    taken->since_ns = started;
  }
  executions_.fetch_add(1, std::memory_order_relaxed);
  // The launch ends when the execution has and its results are filled, whichever comes last.
  auto ending = std::make_shared<Ending>(task);
  absl::StatusOr<std::vector<EngineBufferPtr>> outputs =
      engine_.Execute(execution, [ending, started, shared = shared_](absl::Status status) {
        ending->task->had_device = shared->clock.Ended(started, DeviceClock::Now());
        ending->status = std::move(status);
        ending->Arrive();
        MutexLock lock(shared->mutex);
        --(ending->task->aside ? shared->aside : shared->in_flight);
        shared->Forget(ending->task.get());
        shared->wake.NotifyAll();
      });
  if (outputs.ok()) FillResults(*task, *std::move(outputs));
  ending->Arrive();
}

void DeviceQueue::FillResults(const RankTask& task, std::vector<EngineBufferPtr> outputs) {
  if (outputs.size() != task.results.size()) {
    const absl::Status status = absl::InternalError(fmt::format(
        "program {} gave {} results instead of {}", task.program->name, outputs.size(), task.results.size()));
    task.launch->Fail(status, /*origin=*/true);
    for (const BufferEntryPtr& result : task.results) result->Fail(status);
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) task.results[i]->Fill(std::move(outputs[i]), task.outcome);
}

void DeviceQueue::Blame(RankTaskPtr task, size_t argument, absl::Status status) {
  for (; argument < task->arguments.size(); ++argument) {
    const std::shared_ptr<Outcome> producer = task->arguments[argument]->content().producer;
    if (producer == nullptr) continue;
    const std::optional<absl::Status> produced = producer->Peek();
    if (!produced.has_value()) {
      producer->Then([task = std::move(task), argument, status = std::move(status)](const absl::Status&) mutable {
        Blame(std::move(task), argument, std::move(status));
      });
      return;
    }
    if (!produced->ok()) {
      status = *produced;
      break;
    }
  }
  task->launch->End(*task, std::move(status));
}

WorkerActivity::Device DeviceQueue::Activity() const {
  WorkerActivity::Device activity;
  std::vector<Taken> taken;
  {
    MutexLock lock(shared_->mutex);
    taken = shared_->taken;
    activity.queued = shared_->tasks.size();
  }
  const int64_t now = DeviceClock::Now();
  const auto running = std::find_if(taken.begin(), taken.end(), [](const Taken& one) { return one.running; });
  activity.busy_ns = running == taken.end() ? busy_ns() : shared_->clock.BusyUntil(running->since_ns, now);
  for (const Taken& one : taken) {
    if (activity.tasks.size() == kActivityEntriesMax) break;
    const RankTask& task = *one.task;
    WorkerActivity::Task& told = activity.tasks.emplace_back();
    told.launch = task.context.id;
    told.rank = task.context.rank;
    told.program = task.program->name;
    told.running = one.running;
    if (one.since_ns != 0) told.age_us = (now - one.since_ns) / 1000;
    if (one.running) continue;
    told.program_loading = !task.program->loaded.Peek().has_value();
    absl::InlinedVector<BufferEntryPtr, 8> arguments;
    if (!task.launch->Arguments(task, &arguments)) continue;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i]->filled()) told.missing_arguments.push_back(static_cast<uint32_t>(i));
    }
  }
  return activity;
}

}  // namespace switchtower
