#include "transport/fast_lane.h"

#include <errno.h>
#include <fcntl.h>
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

}  // namespace

absl::StatusOr<std::unique_ptr<FastLane>> FastLane::Create(EventLoop& loop, Deliver deliver) {
  ASSIGN_OR_RETURN(UniqueFd bell, Checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  std::unique_ptr<FastLane> lane(new FastLane(std::move(deliver), std::move(bell)));
  absl::Status added;
  loop.RunAndWait([&] { added = loop.Add(lane->bell_.get(), EPOLLIN, lane.get()).status(); });
  if (!added.ok()) return added;
  return lane;
}

absl::StatusOr<UniqueFd> FastLane::Bell() const { return Checked(::fcntl(bell_.get(), F_DUPFD_CLOEXEC, 0)); }

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
  uint64_t count;
  while (::read(bell_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
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

void FastLane::WantAll(bool wanted) {
  for (const auto& source : sources_) source->ring->Want(wanted);
}

bool FastLane::AllEmpty() {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return source->broken || source->ring->empty(); });
}

void FastLane::LeaveToLoop() {
  while (true) {
    WantAll(true);
    if (AllEmpty()) return;
    WantAll(false);
    DrainAll();
  }
}

void FastLane::Release() {
  while (true) {
    const int wanted = wanted_.load();
    if (wanted > 0) {
      LeaveToLoop();
    } else {
      WantAll(false);
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
    if (waiting_.load()) return false;
    ::sched_yield();  // the loop reads them: not for long
  }
  waiting_.store(true);
  WantAll(false);
  const Clock::time_point end = Clock::now() + budget;
  bool ended = false;
  while (true) {
    DrainAll();
    ended = done();
    if (ended || Clock::now() >= end) break;
    ::sched_yield();
  }
  waiting_.store(false);
  Release();
  return ended;
}

}  // namespace switchtower
