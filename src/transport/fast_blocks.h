// Places for payloads in memory that two processes share, each given back by the reader when it likes: collectives keep
// messages until they have combined them, and not in the order in which they came.
//
//   | control: held[id] | ... arena: block, gap, block ... |
//
// The lowest gap is taken first, so that few messages on their way at a time reuse the same, cached, memory.
//
// Place:    transport, private; a part of the fast ring's memory.
// Threads:  one at a time for the arena; Release of a view from any.
// Errors:   the reader trusts no place that it is told; a reader that lies in `held` harms its own messages alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"

namespace switchtower {

inline constexpr uint32_t kFastBlocks = 64;
inline constexpr size_t kFastArenaBytes = size_t{8} << 20;

struct FastBlock {
  uint32_t id = 0;
  uint64_t offset = 0;
};

using HeldFlags = std::array<std::atomic<uint32_t>, kFastBlocks>;

// The writer's side: what is taken, and what the reader gave back.
class BlockArena {
 public:
  explicit BlockArena(HeldFlags& held) : held_(held) {}

  // A place for `bytes`, held from now on; nothing if there is none.
  std::optional<FastBlock> Take(size_t bytes);

 private:
  struct Taken {
    FastBlock block;
    uint64_t end;
  };
  void Sweep();

  HeldFlags& held_;
  absl::InlinedVector<Taken, kFastBlocks> taken_;  // by offset
  uint64_t free_ids_ = ~uint64_t{0};
};
static_assert(kFastBlocks == 64, "free_ids_ has a bit for each");

}  // namespace switchtower
