// What stands on a data plane connection. Private to transport.
//
// The dialler sends messages, the acceptor the rest:
//
//   dialler                                  acceptor
//   kHello  ------------------------------>  version, cluster, build, ids and secret are checked
//           <------------------------------  kWelcome (the same about the acceptor) or kRefused
//   kMessage                 header, payload below Fabric::kLargeBytes
//   kMessageHead kMessageBody                header and size; payload
//   kRing (descriptor)                       once, before the first use of shared memory
//   kRingMessage             header, place of the payload in the ring
//           <------------------------------  kBells (two eventfds), on a unix socket only
//   kFastRing (descriptor)                   the answer: memory for fast messages (fast_ring.h)
//   kMessageHead kRingChunk...               a payload larger than the ring can hold at once
//           <------------------------------  kRingFree: there is room again (only when waited for)
//   kGoodbye in both directions: what ends now is no loss
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "transport/fabric.h"

namespace switchtower::transport_wire {

// One for each change of what follows; other versions are refused.
constexpr uint32_t kVersion = 3;

enum FrameType : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kGoodbye = 4,
  kMessage = 8,
  kMessageHead = 9,
  kMessageBody = 10,
  kRing = 16,
  kRingMessage = 17,
  kRingChunk = 18,
  kRingFree = 19,
  kBells = 20,
  kFastRing = 21,
};

struct Hello {
  uint32_t version = kVersion;
  WorkerId from;
  WorkerId to;
  std::string cluster_id;
  std::string build;
  std::string secret;
};
constexpr size_t kHelloBytesMax = 4096;
std::string EncodeHello(const Hello& hello);
// A hello of another version has only its version filled in.
absl::StatusOr<Hello> DecodeHello(std::string_view bytes);

// Fixed-size bodies, as they lie in memory (little-endian, checked in base/net).
struct MessageHead {
  MessageHeader header;
  uint64_t payload_bytes = 0;
};
struct RingPlace {
  uint64_t position = 0;  // counts all bytes ever written to the ring
  uint64_t length = 0;
};
struct RingMessage {
  MessageHeader header;
  RingPlace place;
};

template <typename T>
std::string_view AsBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
template <typename T>
bool FromBytes(std::string_view bytes, T& value) {
  if (bytes.size() != sizeof(T)) return false;
  __builtin_memcpy(&value, bytes.data(), sizeof(T));
  return true;
}

}  // namespace switchtower::transport_wire
