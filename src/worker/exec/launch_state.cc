#include "worker/exec/launch_state.h"

#include <utility>

#include "base/check.h"
#include "worker/exec/device_queue.h"

namespace switchtower {

RankTask::RankTask(std::shared_ptr<LaunchState> launch, int32_t ordinal, LaunchId id, int rank,
                   std::shared_ptr<const GangTable> gang, CollectiveEngine* collectives, HostCallTable* host_calls)
    : launch(std::move(launch)),
      ordinal(ordinal),
      context(id, rank, std::move(gang), collectives, this->launch->session, host_calls) {}

void LaunchState::SetTasks(std::vector<RankTaskPtr> tasks) {
  MutexLock lock(mutex_);
  tasks_ = std::move(tasks);
  open_ = tasks_.size();
}

bool LaunchState::Start(RankTask& task) {
  MutexLock lock(mutex_);
  if (task.state != RankTask::State::kQueued) return false;
  task.state = RankTask::State::kRunning;
  return true;
}

bool LaunchState::Arguments(const RankTask& task, absl::InlinedVector<BufferEntryPtr, 8>* arguments) const {
  MutexLock lock(mutex_);
  if (task.state != RankTask::State::kQueued) return false;
  *arguments = task.arguments;
  return true;
}

bool LaunchState::IsEnded(const RankTask& task) const {
  MutexLock lock(mutex_);
  return task.state == RankTask::State::kEnded;
}

std::optional<absl::Status> LaunchState::cause() const {
  MutexLock lock(mutex_);
  return cause_;
}

void LaunchState::Finish(RankTask& task, const absl::Status& status) {
  if (!status.ok()) {
    for (const BufferEntryPtr& result : task.results) result->Fail(status);
  }
  task.outcome->Set(status);
  task.arguments.clear();
  task.results.clear();
}

void LaunchState::End(RankTask& task, absl::Status status) {
  if (!status.ok()) {
    Fail(status, /*origin=*/true);
    status = *cause();
  }
  Finish(task, status);
  {
    MutexLock lock(mutex_);
    CHECK(task.state != RankTask::State::kEnded);
    task.state = RankTask::State::kEnded;
  }
  Close(1);
}

void LaunchState::Close(size_t count) {
  bool last = false;
  {
    MutexLock lock(mutex_);
    open_ -= count;
    last = open_ == 0;
  }
  if (last) observer_->OnLaunchEnded(*this);
}

void LaunchState::Fail(absl::Status cause, bool origin) {
  std::vector<RankTaskPtr> dropped;
  {
    MutexLock lock(mutex_);
    if (cause_.has_value() || open_ == 0) return;
    cause_ = cause;
    ++open_;  // the end is told after the failure
    for (const RankTaskPtr& task : tasks_) {
      if (task->state != RankTask::State::kQueued) continue;
      task->state = RankTask::State::kEnded;
      dropped.push_back(task);
    }
  }
  observer_->OnLaunchFailed(*this, cause, origin);
  for (const RankTaskPtr& task : dropped) {
    DeviceQueue* queue = task->queue;
    Finish(*task, cause);
    queue->Poke();
  }
  Close(dropped.size() + 1);
}

void LaunchState::AppendTimes(std::vector<LaunchTimes::Span>* spans) const {
  MutexLock lock(mutex_);
  for (const RankTaskPtr& task : tasks_) {
    if (task->had_device.end_ns == 0) continue;  // never started
    spans->push_back({id, task->ordinal, task->had_device.begin_ns, task->had_device.end_ns});
  }
}

void LaunchState::Release() {
  std::vector<RankTaskPtr> tasks;
  MutexLock lock(mutex_);
  tasks.swap(tasks_);
}

}  // namespace switchtower
