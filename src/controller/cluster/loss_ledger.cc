#include "controller/cluster/loss_ledger.h"

#include <fmt/format.h>

namespace switchtower {

absl::Status LossLedger::CheckSeat(int32_t seat, Stamp stamp) const {
  if (stamp == now() && down_count_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
  MutexLock lock(mutex_);
  return CheckLocked(seat, stamp);
}

absl::Status LossLedger::CheckSlowly(const std::vector<int32_t>& seats, Stamp stamp) const {
  MutexLock lock(mutex_);
  for (int32_t seat : seats) {
    absl::Status status = CheckLocked(seat, stamp);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LossLedger::CheckLocked(int32_t seat, Stamp stamp) const {
  if (seat >= static_cast<int32_t>(seats_.size())) return absl::OkStatus();
  const Seat& entry = seats_[seat];
  return entry.down || entry.last_loss > stamp ? entry.error : absl::OkStatus();
}

void LossLedger::Lost(int32_t seat, const std::string& who, const std::string& cause) {
  MutexLock lock(mutex_);
  if (seat >= static_cast<int32_t>(seats_.size())) seats_.resize(seat + 1);
  Seat& entry = seats_[seat];
  entry.last_loss = version_.load(std::memory_order_relaxed) + 1;
  entry.error = absl::DataLossError(fmt::format("{}: worker lost: {}", who, cause));
  if (!entry.down) down_count_.fetch_add(1, std::memory_order_release);
  entry.down = true;
  version_.store(entry.last_loss, std::memory_order_release);
}

void LossLedger::Returned(int32_t seat) {
  MutexLock lock(mutex_);
  if (seat >= static_cast<int32_t>(seats_.size()) || !seats_[seat].down) return;
  seats_[seat].down = false;
  down_count_.fetch_sub(1, std::memory_order_release);
}

}  // namespace switchtower
