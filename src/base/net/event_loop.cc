#include "base/net/event_loop.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "absl/status/status.h"
#include "base/check.h"

namespace switchtower {
namespace {
// Handlers are numbered from 1; 0 is the eventfd that wakes the loop.
constexpr uint64_t kWakeId = 0;
}  // namespace

// The queue of posted tasks, which outlives the loop for the sake of its posters.
class EventLoop::Mailbox {
 public:
  explicit Mailbox(UniqueFd wake) : wake_(std::move(wake)) {}

  int wake_fd() const { return wake_.get(); }

  bool Post(Task task) EXCLUDES(mutex_) {
    bool wake = false;
    {
      MutexLock lock(mutex_);
      if (stopped_) return false;
      tasks_.push_back(std::move(task));
      wake = std::exchange(asleep_, false);
    }
    if (wake) Wake();
    return true;
  }

  void Wake() {
    const uint64_t one = 1;
    // It can't fail: the counter is drained at each wake-up.
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  }

  void DrainWake() {
    uint64_t count;
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
  }

  // True if there is nothing to do: from now on a Post wakes the loop.
  bool FallAsleep() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    asleep_ = tasks_.empty() && !stopped_;
    return asleep_;
  }

  void StayAwake() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    asleep_ = false;
  }

  void Take(std::vector<Task>& into) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    into.swap(tasks_);
  }

  void Stop() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      asleep_ = false;
    }
    Wake();
  }

  bool Finished() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stopped_ && tasks_.empty();
  }

 private:
  const UniqueFd wake_;
  Mutex mutex_;
  std::vector<Task> tasks_ GUARDED_BY(mutex_);
  bool asleep_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

bool EventLoop::Poster::Post(Task task) const { return mailbox_->Post(std::move(task)); }

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create(std::string name) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) {
    return absl::ResourceExhaustedError(fmt::format("can't create an event loop: {}", strerror(errno)));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  CHECK(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) == 0);
  auto loop = std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::make_shared<Mailbox>(std::move(wake))));
  loop->thread_ = std::thread([loop = loop.get(), name = std::move(name)] {
    NameThread(name);
    loop->Run();
  });
  return loop;
}

EventLoop::EventLoop(UniqueFd epoll, std::shared_ptr<Mailbox> mailbox)
    : epoll_(std::move(epoll)), poster_(std::move(mailbox)), scratch_(new char[kScratchBytes]) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Stop() {
  if (!thread_.joinable()) return;
  CHECK(!OnLoopThread());
  poster_.mailbox_->Stop();
  thread_.join();
}

bool EventLoop::OnLoopThread() const { return std::this_thread::get_id() == thread_.get_id(); }

void EventLoop::RunAndWait(Task task) {
  if (OnLoopThread()) return std::move(task)();
  Mutex mutex;
  CondVar done_changed;
  bool done = false;
  const bool posted = Post([&] {
    std::move(task)();
    MutexLock lock(mutex);
    done = true;
    done_changed.NotifyOne();
  });
  if (!posted) {
    // Another thread may be in Stop: its last tasks are over once the loop's thread is joined. Owners
    // don't call this while they stop the loop, so here it is joined already.
    return std::move(task)();
  }
  MutexLock lock(mutex);
  while (!done) done_changed.Wait(mutex);
}

absl::StatusOr<EventLoop::Registration> EventLoop::Add(int fd, uint32_t epoll_events, FdHandler* handler) {
  const Registration registration{next_id_++, fd};
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = registration.id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ResourceExhaustedError(fmt::format("can't watch a descriptor: {}", strerror(errno)));
  }
  handlers_.emplace(registration.id, handler);
  return registration;
}

void EventLoop::Modify(const Registration& registration, uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = registration.id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, registration.fd, &event);
}

void EventLoop::Remove(const Registration& registration) {
  if (handlers_.erase(registration.id) == 0) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, registration.fd, nullptr);
}

EventLoop::TimerId EventLoop::RunAfter(std::chrono::nanoseconds delay, Task task) {
  const TimerId timer{std::chrono::steady_clock::now() + delay, next_id_++};
  timers_.emplace(std::make_pair(timer.when, timer.id), std::move(task));
  return timer;
}

void EventLoop::Cancel(const TimerId& timer) { timers_.erase(std::make_pair(timer.when, timer.id)); }

int EventLoop::RunTimers() {
  const auto now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    std::move(task)();
  }
  if (timers_.empty()) return -1;
  const auto wait = timers_.begin()->first.first - now;
  // Rounded up: a wait of nothing would spin until the timer is due.
  return static_cast<int>(
      std::min<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count() + 1, 60'000));
}

void EventLoop::RunTasks() {
  poster_.mailbox_->Take(running_);
  for (Task& task : running_) {
    std::move(task)();
    task = nullptr;  // what a task holds goes before the next one runs
  }
  running_.clear();
}

void EventLoop::Run() {
  std::array<epoll_event, 128> events;
  Mailbox& mailbox = *poster_.mailbox_;
  while (!mailbox.Finished()) {
    int timeout_ms = timers_.empty() ? -1 : RunTimers();
    const bool asleep = mailbox.FallAsleep();
    if (!asleep) timeout_ms = 0;
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
    if (asleep) mailbox.StayAwake();
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;  // a copy: the struct is packed, so this may lie anywhere
      if (id == kWakeId) {
        mailbox.DrainWake();
        continue;
      }
      // A handler before this one may have removed it.
      auto it = handlers_.find(id);
      if (it != handlers_.end()) it->second->OnReady(events[i].events);
    }
    RunTasks();
  }
}

}  // namespace switchtower
