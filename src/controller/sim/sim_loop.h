// Events by time: the only clock of a simulated cluster.
//
// Place:    controller/sim.
// Threads:  one.
// Invariants: E-1 events of one moment run in the order in which they were posted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/strand.h"

namespace switchtower {

class SimLoop {
 public:
  int64_t now_ns() const { return now_ns_; }
  void Post(Task task) { At(now_ns_, std::move(task)); }
  void After(int64_t delay_ns, Task task) { At(now_ns_ + delay_ns, std::move(task)); }
  void At(int64_t when_ns, Task task) {
    events_.push_back({std::max(when_ns, now_ns_), ++posted_, std::move(task)});
    std::push_heap(events_.begin(), events_.end(), Later);
  }
  // False if nothing is left to happen.
  bool RunOne() {
    if (events_.empty()) return false;
    std::pop_heap(events_.begin(), events_.end(), Later);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ns_ = event.when_ns;
    event.task();
    return true;
  }
  void RunUntil(int64_t when_ns) {
    while (!events_.empty() && events_.front().when_ns <= when_ns) RunOne();
  }
  void RunAll() {
    while (RunOne()) {
    }
  }

 private:
  struct Event {
    int64_t when_ns = 0;
    uint64_t number = 0;
    Task task;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.when_ns != b.when_ns ? a.when_ns > b.when_ns : a.number > b.number;
  }

  std::vector<Event> events_;  // a heap
  int64_t now_ns_ = 0;
  uint64_t posted_ = 0;
};

}  // namespace switchtower
