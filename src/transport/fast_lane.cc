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

absl::StatusOr<UniqueFd> Checked(int fd) {
  if (fd < 0) return absl::ResourceExhaustedError(fmt::format("can't make an eventfd: {}", strerror(errno)));
  return UniqueFd(fd);
}

void Silence(const UniqueFd& bell) {
  uint64_t count;
  while (::read(bell.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FastLane>> FastLane::Create(EventLoop& loop, Deliver deliver) {
  FastBells bells;
  ASSIGN_OR_RETURN(bells.loop, Checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  ASSIGN_OR_RETURN(bells.sleeper, Checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  std::unique_ptr<FastLane> lane(new FastLane(std::move(deliver), std::move(bells)));
  absl::Status added;
  loop.RunAndWait([&] { added = loop.Add(lane->bells_.loop.get(), EPOLLIN, lane.get()).status(); });
  if (!added.ok()) return added;
  return lane;
}

absl::StatusOr<FastBells> FastLane::Bells() const {
  FastBells copies;
  ASSIGN_OR_RETURN(copies.loop, Checked(::fcntl(bells_.loop.get(), F_DUPFD_CLOEXEC, 0)));
  ASSIGN_OR_RETURN(copies.sleeper, Checked(::fcntl(bells_.sleeper.get(), F_DUPFD_CLOEXEC, 0)));
  return copies;
}

void FastLane::Add(std::shared_ptr<Source> source) {
  mutex_.Lock();
  sources_.push_back(std::move(source));
  Release();
}

void FastLane::Remove(const std::shared_ptr<Source>& source) {
  mutex_.Lock();
  Drain(*source);
  sources_.erase(std::remove(sources_.begin(), sources_.end(), source), sources_.end());
  Release();
}

void FastLane::OnReady(uint32_t) {
  Silence(bells_.loop);
  if (!TryClaim()) return;  // whoever reads the rings leaves them to the loop when it ends, and looks after that
  DrainAll();
  Release();
}

void FastLane::DrainAll() {
  for (const auto& source : sources_) Drain(*source);
}

void FastLane::Drain(Source& source) {
  if (source.broken) return;
  absl::Status status = source.ring->Read(
      [&](const MessageHeader& header, ReceivedBytes bytes) { deliver_(source.from, header, std::move(bytes)); });
  if (status.ok()) return;
  source.broken = true;
  source.failed(std::move(status));
}

void FastLane::WantAll(FastWish wish) {
  for (const auto& source : sources_) source->ring->Want(wish);
}

bool FastLane::AllEmpty() {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return source->broken || source->ring->empty(); });
}

void FastLane::LeaveToLoop() {
  while (true) {
    WantAll(FastWish::kLoop);
    if (AllEmpty()) return;
    WantAll(FastWish::kNobody);
    DrainAll();
  }
}

// Either this gets the mutex or its holder sees `missed_` after having let it go.
bool FastLane::TryClaim() {
  missed_.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return mutex_.TryLock();
}

void FastLane::Release() {
  do {
    missed_.store(false);
    if (asleep_.load()) {
      Ring(bells_.sleeper);  // it makes its wishes anew, and what it waits for may just have been delivered
    } else if (wanted_.load() > 0) {
      LeaveToLoop();
    } else {
      WantAll(FastWish::kNobody);
    }
    mutex_.Unlock();
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } while (missed_.load() && mutex_.TryLock());
}

void FastLane::Want() {
  // A thread in Wait delivers meanwhile, and looks whether messages are wanted when it ends.
  if (wanted_.fetch_add(1) == 0 && !waiting_.load() && TryClaim()) Release();
}

void FastLane::Wake() {
  if (asleep_.load()) Ring(bells_.sleeper);
}

bool FastLane::Wait(absl::FunctionRef<bool()> done, int looks, Clock::time_point end) {
  while (true) {
    if (waiting_.load()) return false;
    if (mutex_.TryLock()) break;
    ::sched_yield();  // the loop reads them: not for long
  }
  if (waiting_.load()) {  // it sleeps, without the mutex
    Release();
    return false;
  }
  waiting_.store(true);
  WantAll(FastWish::kNobody);
  bool ended = false;
  for (int look = 0;; ++look) {
    DrainAll();
    ended = done();
    if (ended || (look >= looks && Clock::now() >= end)) break;
    if (look < looks) {
      ::sched_yield();
    } else {
      Sleep(done, end);
    }
  }
  waiting_.store(false);
  Release();
  return ended;
}

void FastLane::Sleep(absl::FunctionRef<bool()> done, Clock::time_point end) {
  asleep_.store(true);
  WantAll(FastWish::kSleeper);
  // Whoever comes second of (what ends the wait, a look at asleep_ or at the wish) and these sees the other.
  if (AllEmpty() && !done()) {
    mutex_.Unlock();
    const auto left = std::max<std::chrono::nanoseconds>(end - Clock::now(), std::chrono::nanoseconds(0));
    const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    pollfd bell{bells_.sleeper.get(), POLLIN, 0};
    ::ppoll(&bell, 1, &timeout, nullptr);
    mutex_.Lock();
  }
  Silence(bells_.sleeper);
  asleep_.store(false);
  WantAll(FastWish::kNobody);
}

}  // namespace switchtower
