#include "plugins/simdev/device.h"

#include <algorithm>
#include <chrono>

namespace simdev {

void State::Set(Failure failure) {
  std::vector<std::function<void(const Failure&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (ready_) return;
    ready_ = true;
    failure_ = std::move(failure);
    callbacks.swap(callbacks_);
  }
  changed_.notify_all();
  for (auto& callback : callbacks) callback(failure_);
}

void State::OnReady(std::function<void(const Failure&)> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!ready_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(failure_);
}

Failure State::Await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_; });
  return failure_;
}

bool State::ready() {
  std::lock_guard lock(mutex_);
  return ready_;
}

bool Memory::Reserve(int64_t bytes) {
  std::lock_guard lock(mutex);
  if (limit > 0 && used + bytes > limit) return false;
  used += bytes;
  peak = std::max(peak, used);
  return true;
}

void Memory::Free(int64_t bytes) {
  std::lock_guard lock(mutex);
  used -= bytes;
}

Device::Device(int id, int64_t memory_bytes, int64_t time_percent)
    : id(id), debug("simdev:" + std::to_string(id)), time_percent_(time_percent) {
  for (const char* kind : {"device", "pinned_host", "unpinned_host"}) {
    auto memory = std::make_unique<Memory>();
    memory->device = this;
    memory->id = id * 3 + static_cast<int>(memories.size());
    memory->kind = kind;
    memory->debug = debug + "/" + kind;
    memory->limit = memories.empty() ? memory_bytes : 0;
    memories.push_back(std::move(memory));
  }
  thread_ = std::thread([this] { Run(); });
}

Device::~Device() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Device::Queue(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void Device::Compute(int64_t microseconds) const {
  const int64_t scaled = microseconds * time_percent_ / 100;
  if (scaled > 0) std::this_thread::sleep_for(std::chrono::microseconds(scaled));
}

void Device::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds is freed without the lock
    lock.lock();
  }
}

}  // namespace simdev
