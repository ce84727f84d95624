// The header of a collective's message between workers: the match key and what both sides must agree on.
//
// Place:    worker/collective. Words 0 to 5 of the fabric's header; the low byte of word 0 is the peer router's.
// Threads:  values.
// Errors:   a header of a peer that makes no sense reads as nullopt.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/fabric.h"
#include "worker/collective/exchange.h"
#include "worker/collective/member_call.h"
#include "worker/exec/peer_router.h"

namespace switchtower {

struct CollectiveHeader {
  LaunchId launch;
  ExchangeKey key;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int phase = 0;
  uint64_t fingerprint = 0;  // CollectiveShape::Fingerprint

  MessageHeader Write() const {
    MessageHeader header;
    header.words[0] = PeerRouter::FirstWord(PeerMessageKind::kCollective,
                                            static_cast<uint64_t>(kind) | static_cast<uint64_t>(phase) << 8);
    header.words[1] = launch.epoch;
    header.words[2] = launch.number;
    header.words[3] = uint64_t{key.op_id} << 32 | key.iteration;
    header.words[4] = key.group;
    header.words[5] = fingerprint;
    return header;
  }

  static std::optional<CollectiveHeader> Read(const MessageHeader& header) {
    const uint64_t upper = PeerRouter::UpperBits(header);
    const uint64_t kind = upper & 0xff, phase = upper >> 8;
    if (kind < static_cast<uint64_t>(CollectiveKind::kAllReduce) ||
        kind > static_cast<uint64_t>(CollectiveKind::kRaggedAllToAll) || phase > 1 || header.words[4] >> 32 != 0) {
      return std::nullopt;
    }
    return CollectiveHeader{{header.words[1], header.words[2]},
                            {static_cast<uint32_t>(header.words[3] >> 32), static_cast<uint32_t>(header.words[3]),
                             static_cast<uint32_t>(header.words[4])},
                            static_cast<CollectiveKind>(kind),
                            static_cast<int>(phase),
                            header.words[5]};
  }
};

}  // namespace switchtower
