#include "frontdoor/future_table.h"

#include <optional>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {

struct FutureTable::Future {
  Mutex mutex;
  std::optional<absl::Status> value GUARDED_BY(mutex);
  Callback<absl::Status> waiter GUARDED_BY(mutex);

  void Fill(absl::Status status) {
    Callback<absl::Status> ready;
    {
      MutexLock lock(mutex);
      if (value.has_value()) return;
      value = status;
      ready = std::move(waiter);
      waiter = nullptr;
    }
    if (ready) ready(std::move(status));
  }
};

absl::StatusOr<Callback<absl::Status>> FutureTable::Add(uint64_t handle) {
  auto future = std::make_shared<Future>();
  MutexLock lock(mutex_);
  if (!futures_.emplace(handle, future).second) {
    return absl::InvalidArgumentError(fmt::format("future {} exists already", handle));
  }
  return Callback<absl::Status>([future](absl::Status status) { future->Fill(std::move(status)); });
}

absl::Status FutureTable::AddFilled(uint64_t handle, absl::Status value) {
  ASSIGN_OR_RETURN(Callback<absl::Status> fill, Add(handle));
  fill(std::move(value));
  return absl::OkStatus();
}

void FutureTable::Take(uint64_t handle, Callback<absl::Status> done) {
  std::shared_ptr<Future> future;
  {
    MutexLock lock(mutex_);
    auto it = futures_.find(handle);
    if (it != futures_.end()) {
      future = std::move(it->second);
      futures_.erase(it);
    }
  }
  if (future == nullptr) {
    done(absl::InvalidArgumentError(fmt::format("there is no future {}, or it was asked for before", handle)));
    return;
  }
  absl::Status value;
  {
    MutexLock lock(future->mutex);
    if (!future->value.has_value()) {
      future->waiter = std::move(done);
      return;
    }
    value = *future->value;
  }
  done(std::move(value));
}

void FutureTable::Drop(uint64_t handle) {
  MutexLock lock(mutex_);
  futures_.erase(handle);
}

size_t FutureTable::size() const {
  MutexLock lock(mutex_);
  return futures_.size();
}

}  // namespace switchtower
