#include "frontdoor/client_socket.h"

#include <sys/socket.h>

#include <utility>

namespace switchtower {

ClientSocket::ClientSocket(EventLoop& loop, UniqueFd socket) : loop_(loop), socket_(std::move(socket)) {}

void ClientSocket::AddSession() {
  MutexLock lock(mutex_);
  if (++sessions_ > 1 && std::exchange(gathers_, false)) WakeFor(1);
}

void ClientSocket::RemoveSession() {
  MutexLock lock(mutex_);
  --sessions_;
}

bool ClientSocket::RunsAhead(bool goes_on, Clock::time_point now) {
  if (now - counted_from_ >= kTick) {
    dense_ = counted_ >= kDense && now - counted_from_ < 4 * kTick;
    counted_ = 0;
    counted_from_ = now;
  }
  ++counted_;
  if (!goes_on) awaited_ = now;
  return dense_ && now - awaited_ >= kAheadFor && sessions_ == 1;
}

// False once the server has stopped: there are no more ticks.
bool ClientSocket::KeepTicking() {
  if (!ticking_) {
    ticking_ = loop_.Post([self = shared_from_this()] { self->loop_.RunAfter(kTick, [self] { self->Tick(); }); });
  }
  return ticking_;
}

void ClientSocket::OnRequest(bool goes_on, Clock::time_point now) {
  MutexLock lock(mutex_);
  const bool gather = RunsAhead(goes_on, now) && KeepTicking();
  if (gather == gathers_) return;
  gathers_ = gather;
  WakeFor(gather ? kGatherBytes : 1);
}

void ClientSocket::Tick() {
  {
    MutexLock lock(mutex_);
    ticking_ = std::exchange(gathers_, false);
    if (!ticking_) return;
  }
  // Without the mutex, which the reader wants as soon as it is awake. If it has gathers_ again by now, it does so from
  // the next tick on.
  WakeFor(1);
  loop_.RunAfter(kTick, [self = shared_from_this()] { self->Tick(); });
}

void ClientSocket::WakeFor(int bytes) {
  // Wakes the reader also for what is there already. It can't fail but on a socket that is no stream.
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

}  // namespace switchtower
