// What a chunk of a host buffer takes in memory: bounds count that, since a client may cut its bytes as small as it
// likes.
#pragma once

#include <cstdint>

#include "controller/api/session.h"

namespace switchtower {

inline int64_t CostOf(const HostBuffer::Chunk& chunk) {
  constexpr int64_t kBesideItsBytes = 128;
  return kBesideItsBytes + static_cast<int64_t>(chunk->size());
}

}  // namespace switchtower
