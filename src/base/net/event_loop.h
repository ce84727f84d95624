// One thread around epoll: descriptors, timers and posted tasks.
//
// Place:    base/net; sockets live on a loop, their owners may be on any thread.
// Threads:  Post, RunAndWait, Modify, OnLoopThread and poster() from any thread; the rest on the loop's.
//           Tasks and handlers run on the loop's thread, must not block, and tasks of one poster keep
//           their order. A task posted by a handler runs at the end of the same turn.
// Lifetime: Stop (or the destructor) runs what was posted before it and joins the thread; descriptors
//           still registered are forgotten. Never Stop on the loop's own thread.
// Errors:   Post is false after Stop; the task is destroyed unrun.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net/unique_fd.h"
#include "base/strand.h"

namespace switchtower {

class EventLoop {
 public:
  // What a registered descriptor does. The registration does not own it.
  class FdHandler {
   public:
    virtual ~FdHandler() = default;
    virtual void OnReady(uint32_t epoll_events) = 0;
  };
  struct Registration {
    uint64_t id = 0;
    int fd = -1;
  };
  struct TimerId {
    std::chrono::steady_clock::time_point when;
    uint64_t id = 0;
  };
  class Mailbox;
  // Posts to a loop that may be gone by then.
  class Poster {
   public:
    bool Post(Task task) const;

   private:
    friend class EventLoop;
    explicit Poster(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
    std::shared_ptr<Mailbox> mailbox_;
  };

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create(std::string name);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  void Stop();

  bool Post(Task task) const { return poster_.Post(std::move(task)); }
  // Returns when the task has run: here and now on the loop's thread or after Stop.
  void RunAndWait(Task task);
  const Poster& poster() const { return poster_; }
  bool OnLoopThread() const;

  // Level-triggered. The handler must stay until Remove.
  absl::StatusOr<Registration> Add(int fd, uint32_t epoll_events, FdHandler* handler);
  void Modify(const Registration& registration, uint32_t epoll_events);
  void Remove(const Registration& registration);

  TimerId RunAfter(std::chrono::nanoseconds delay, Task task);
  void Cancel(const TimerId& timer);

  // Memory that readers on this loop share within one OnReady, so that a connection needs no buffer of
  // its own while nothing is half read.
  char* scratch() { return scratch_.get(); }
  static constexpr size_t kScratchBytes = 256 * 1024;

 private:
  EventLoop(UniqueFd epoll, std::shared_ptr<Mailbox> mailbox);
  void Run();
  int RunTimers();  // milliseconds until the next one, -1 for none
  void RunTasks();

  UniqueFd epoll_;
  Poster poster_;
  std::unique_ptr<char[]> scratch_;
  absl::flat_hash_map<uint64_t, FdHandler*> handlers_;  // loop thread, like all below
  std::map<std::pair<std::chrono::steady_clock::time_point, uint64_t>, Task> timers_;
  std::vector<Task> running_;
  uint64_t next_id_ = 1;
  std::thread thread_;
};

}  // namespace switchtower
