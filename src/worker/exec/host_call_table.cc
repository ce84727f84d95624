#include "worker/exec/host_call_table.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace switchtower {

void HostCallTable::Begin(HostCall call, std::vector<char*> outputs, absl::AnyInvocable<void(absl::Status)> done) {
  Pending pending{call.launch,  call.rank,          call.callback,  std::chrono::steady_clock::now(),
                  call.results, std::move(outputs), std::move(done)};
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (auto it = cancelled_.find(call.launch); it != cancelled_.end()) {
      refused = it->second;
    } else {
      call.request = RequestId{++last_};
      pending_.emplace(call.request, std::move(pending));
    }
  }
  if (!refused.ok()) return Finish(std::move(pending), std::move(refused), nullptr);
  emit_(std::move(call));
}

void HostCallTable::Return(ReturnHostCall answer) {
  Pending pending;
  {
    MutexLock lock(mutex_);
    auto it = pending_.find(answer.request);
    if (it == pending_.end()) return;  // its launch was cancelled meanwhile
    pending = std::move(it->second);
    pending_.erase(it);
  }
  Finish(std::move(pending), std::move(answer.status), std::move(answer.data));
}

void HostCallTable::CancelLaunch(LaunchId launch, const absl::Status& cause) {
  std::vector<Pending> ended;
  {
    MutexLock lock(mutex_);
    cancelled_.try_emplace(launch, cause);
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second.launch != launch) {
        ++it;
        continue;
      }
      ended.push_back(std::move(it->second));
      pending_.erase(it++);
    }
  }
  for (Pending& pending : ended) Finish(std::move(pending), cause, nullptr);
}

void HostCallTable::LaunchEnded(LaunchId launch) {
  MutexLock lock(mutex_);
  cancelled_.erase(launch);
}

void HostCallTable::Describe(WorkerActivity* activity) const {
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  for (const auto& [request, pending] : pending_) {
    if (activity->calls.size() == kActivityEntriesMax) return;
    activity->calls.push_back({pending.launch, pending.rank, pending.callback,
                               std::chrono::duration_cast<std::chrono::microseconds>(now - pending.since).count()});
  }
}

void HostCallTable::Finish(Pending pending, absl::Status status, std::shared_ptr<const std::string> data) {
  auto shared = std::make_shared<Pending>(std::move(pending));
  auto finish = [shared, status = std::move(status), data = std::move(data)] {
    absl::Status outcome = status;
    if (outcome.ok()) outcome = CopyOut(*shared, data == nullptr ? std::string() : *data);
    shared->done(std::move(outcome));
  };
  if (!resume_->Post(finish)) finish();
}

absl::Status HostCallTable::CopyOut(const Pending& pending, const std::string& data) {
  int64_t expected = 0;
  for (const Shape& shape : pending.results) expected = AddBytes(expected, PackedBytes(shape));
  if (expected != static_cast<int64_t>(data.size())) {
    return absl::InternalError(
        fmt::format("a host callback's results have {} bytes in all instead of {}", data.size(), expected));
  }
  const char* from = data.data();
  for (size_t i = 0; i < pending.results.size(); ++i) {
    const int64_t bytes = PackedBytes(pending.results[i]);
    if (bytes > 0) std::memcpy(pending.outputs[i], from, static_cast<size_t>(bytes));
    from += bytes;
  }
  return absl::OkStatus();
}

}  // namespace switchtower
