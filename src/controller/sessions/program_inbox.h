// Compiled programs on their way from the compiler's threads to the session's strand. The client may use a
// handle as soon as it was told of it, so the session looks here before it looks into its table.
//
// Threads:  Put from any thread, before the handle is told to anybody; Take on the session's strand.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "types/program.h"

namespace switchtower {

class ProgramInbox {
 public:
  struct Item {
    uint64_t handle = 0;
    std::shared_ptr<const CompiledProgram> program;
    std::vector<DeviceId> devices;
    uint64_t user_context = 0;
  };
  void Put(Item item) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    items_.push_back(std::move(item));
    filled_.store(true, std::memory_order_release);
  }
  std::vector<Item> Take() EXCLUDES(mutex_) {
    if (!filled_.load(std::memory_order_acquire)) return {};
    MutexLock lock(mutex_);
    filled_.store(false, std::memory_order_release);
    return std::exchange(items_, {});
  }

 private:
  std::atomic<bool> filled_{false};
  Mutex mutex_;
  std::vector<Item> items_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
