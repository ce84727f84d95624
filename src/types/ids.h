// Ids are types, not integers, so that one can't be taken for another.
//
// An id that outlives a restart of its owner carries an epoch, so that a stale one can't match.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace switchtower {

#define ST_DEFINE_ID_(Name)                                      \
  struct Name {                                                  \
    uint64_t value = 0;                                          \
    friend auto operator<=>(const Name&, const Name&) = default; \
    template <typename H>                                        \
    friend H AbslHashValue(H h, const Name& id) {                \
      return H::combine(std::move(h), id.value);                 \
    }                                                            \
  }

// A client's session at one proxy; unique over all proxies and restarts (random high bits).
ST_DEFINE_ID_(SessionId);
// A logical array of one session: one id for all of its shards.
ST_DEFINE_ID_(ArrayId);
// A virtual device, as the client names it.
ST_DEFINE_ID_(DeviceId);
// A worker process: drawn anew by the resource manager at each registration, so it is the worker's
// incarnation too and a restarted worker never matches an old id.
ST_DEFINE_ID_(WorkerId);
// A set of devices in rank order with the table rank -> worker that belongs to it (one lease epoch).
ST_DEFINE_ID_(GangId);
// A stream of host bytes from the controller to workers.
ST_DEFINE_ID_(StreamId);
// A request to a worker that is answered by exactly one event (or stream of events).
ST_DEFINE_ID_(RequestId);
#undef ST_DEFINE_ID_

// Launches are numbered by the home sequencer; (epoch, number) is never used again, not even by a replay.
struct LaunchId {
  uint64_t epoch = 0;
  uint64_t number = 0;
  friend auto operator<=>(const LaunchId&, const LaunchId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const LaunchId& id) {
    return H::combine(std::move(h), id.epoch, id.number);
  }
};

// An array inside the workers: session and id together, so that no session can name another's.
struct ArrayKey {
  SessionId session;
  ArrayId array;
  friend auto operator<=>(const ArrayKey&, const ArrayKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ArrayKey& key) {
    return H::combine(std::move(h), key.session, key.array);
  }
};

// Content hash of a compiled program: 32 hexadecimal digits of SHA-256 over module, options, device type and plug-in.
struct ProgramId {
  std::string hash;
  friend auto operator<=>(const ProgramId&, const ProgramId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ProgramId& id) {
    return H::combine(std::move(h), id.hash);
  }
};

}  // namespace switchtower

template <>
struct fmt::formatter<switchtower::LaunchId> : fmt::formatter<std::string> {
  template <typename Context>
  auto format(const switchtower::LaunchId& id, Context& context) const {
    return fmt::format_to(context.out(), "{}.{}", id.epoch, id.number);
  }
};
