#include "transport/fast_lane.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than a collective takes whose ranks are all there: a sleep and a wake-up would double it.
constexpr std::chrono::microseconds kLookingAgain{200};

absl::StatusOr<UniqueFd> Checked(int fd) {
  if (fd < 0) return absl::ResourceExhaustedError(fmt::format("can't make an eventfd: {}", strerror(errno)));
  return UniqueFd(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FastLane>> FastLane::Create(EventLoop& loop, Deliver deliver) {
  std::array<UniqueFd, 2> bells;
  for (UniqueFd& bell : bells) {
    ASSIGN_OR_RETURN(bell, Checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  }
  std::unique_ptr<FastLane> lane(new FastLane(loop, std::move(deliver), std::move(bells)));
  absl::Status added;
  loop.RunAndWait([&] { added = loop.Add(lane->bells_[0].get(), EPOLLIN, lane.get()).status(); });
  if (!added.ok()) return added;
  return lane;
}

absl::StatusOr<std::array<UniqueFd, 2>> FastLane::Bells() const {
  std::array<UniqueFd, 2> copies;
  for (size_t i = 0; i < copies.size(); ++i) {
    ASSIGN_OR_RETURN(copies[i], Checked(::fcntl(bells_[i].get(), F_DUPFD_CLOEXEC, 0)));
  }
  return copies;
}

void FastLane::Add(std::shared_ptr<Source> source) {
  mutex_.Lock();
  sources_.push_back(std::move(source));
  Release();
}

void FastLane::Remove(const std::shared_ptr<Source>& source) {
  MutexLock lock(mutex_);
  Drain(*source);
  sources_.erase(std::remove(sources_.begin(), sources_.end(), source), sources_.end());
}

void FastLane::Silence(const UniqueFd& bell) {
  uint64_t count;
  while (::read(bell.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

void FastLane::OnReady(uint32_t) {
  Silence(bells_[0]);
  if (!mutex_.TryLock()) return;  // whoever reads the rings leaves them to the loop when it ends, and looks after that
  DrainAll();
  Release();
}

void FastLane::DrainAll() {
  for (const auto& source : sources_) Drain(*source);
}

void FastLane::Drain(Source& source) {
  if (source.broken) return;
  absl::Status status = source.ring->Read(
      [&](const MessageHeader& header, std::string_view bytes) { deliver_(source.from, header, bytes); });
  if (status.ok()) return;
  source.broken = true;
  source.failed(std::move(status));
}

void FastLane::WantAll(Bell bell) {
  for (const auto& source : sources_) source->ring->Want(bell);
}

bool FastLane::AllEmpty() {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return source->broken || source->ring->empty(); });
}

void FastLane::LeaveToLoop() {
  while (true) {
    WantAll(Bell::kLoop);
    if (AllEmpty()) return;
    WantAll(Bell::kNone);
    DrainAll();
  }
}

void FastLane::Release() {
  while (true) {
    const int wanted = wanted_.load();
    if (wanted > 0) {
      LeaveToLoop();
    } else {
      WantAll(Bell::kNone);
    }
    mutex_.Unlock();
    // A Want that came in between found the mutex taken and relies on this.
    if (wanted > 0 || wanted_.load() <= 0 || !mutex_.TryLock()) return;
  }
}

void FastLane::Want() {
  if (wanted_.fetch_add(1) == 0 && mutex_.TryLock()) Release();
}

bool FastLane::Wait(absl::FunctionRef<bool()> done, std::chrono::nanoseconds budget) {
  while (!mutex_.TryLock()) {
    if (waiter_.load() != std::thread::id{}) return false;
    ::sched_yield();  // the loop reads them: not for long
  }
  waiter_.store(std::this_thread::get_id());
  WantAll(Bell::kNone);
  const Clock::time_point start = Clock::now();
  bool ended = false;
  while (true) {
    DrainAll();
    ended = done();
    if (ended) break;
    const auto waited = Clock::now() - start;
    if (waited >= budget) break;
    if (waited < kLookingAgain) {
      ::sched_yield();
      continue;
    }
    WantAll(Bell::kWaiter);
    if (AllEmpty() && !done()) Sleep(budget - waited);
    WantAll(Bell::kNone);
  }
  waiter_.store({});
  Release();
  return ended;
}

void FastLane::Sleep(std::chrono::nanoseconds timeout) {
  pollfd bell{bells_[1].get(), POLLIN, 0};
  const timespec time{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  if (::ppoll(&bell, 1, &time, nullptr) > 0) Silence(bells_[1]);
}

void FastLane::Wake() {
  const std::thread::id waiter = waiter_.load();
  if (waiter == std::thread::id{} || waiter == std::this_thread::get_id()) return;
  const uint64_t one = 1;
  while (::write(bells_[1].get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace switchtower
