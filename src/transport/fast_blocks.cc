#include "transport/fast_blocks.h"

#include <algorithm>
#include <bit>

namespace switchtower {
namespace {

// Payloads begin where a device or a vector unit likes them to.
constexpr uint64_t kAlignment = 64;

uint64_t AlignUp(uint64_t offset) { return (offset + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

std::optional<FastBlock> BlockArena::Take(size_t bytes) {
  if (bytes > kFastArenaBytes) return std::nullopt;
  Sweep();
  if (free_ids_ == 0) return std::nullopt;
  uint64_t offset = 0;
  auto next = taken_.begin();
  while (next != taken_.end() && next->block.offset - offset < bytes) offset = AlignUp((next++)->end);
  if (offset > kFastArenaBytes - bytes) return std::nullopt;
  const FastBlock block{static_cast<uint32_t>(std::countr_zero(free_ids_)), offset};
  free_ids_ &= free_ids_ - 1;
  held_[block.id].store(1, std::memory_order_relaxed);
  taken_.insert(next, Taken{block, offset + bytes});
  return block;
}

void BlockArena::Sweep() {
  const auto returned = [this](const Taken& taken) {
    if (held_[taken.block.id].load(std::memory_order_acquire) != 0) return false;
    free_ids_ |= uint64_t{1} << taken.block.id;
    return true;
  };
  taken_.erase(std::remove_if(taken_.begin(), taken_.end(), returned), taken_.end());
}

}  // namespace switchtower
