// How a controller and a worker open their connection, and the frames on it.
//
//   controller                         worker
//     kHello {who, lease, epoch}  -->
//                                 <--  kHelloReply {status, identity}   (not OK: closed after it)
//     kCommand ...                -->
//                                 <--  kEvent ...
//
// Place:    wire/worker; used by worker/agent (WorkerServer) and controller/cluster (SocketWorkerChannel). Frames
//           are those of base/net/framed_connection.h; bodies of kCommand and kEvent: wire/worker/worker_codec.h.
// Errors:   decoding gives InvalidArgument for any bytes that aren't a valid message.
//
// The controller sends its first command after an OK reply: until then the worker takes no frame above
// kHelloBytesMax. A hello whose lease the worker hasn't heard of yet waits for it a few seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "types/device.h"
#include "types/ids.h"

namespace switchtower {

enum class WorkerFrame : uint32_t { kHello = 1, kHelloReply = 2, kCommand = 3, kEvent = 4 };

// Grows with each change that an older side wouldn't understand; both sides must be equal.
inline constexpr uint32_t kWorkerProtocolVersion = 6;
// No hello is larger: what a stranger may make the other side hold.
inline constexpr uint64_t kHelloBytesMax = 64 * 1024;

struct ControllerHello {
  uint32_t protocol_version = kWorkerProtocolVersion;
  std::string cluster_id;
  WorkerId worker;           // the incarnation that is meant
  std::string lease_secret;  // LeaseState::secret
  uint64_t home_epoch = 0;   // LeaseState::home_epoch
  std::string controller;    // for people: "proxy host:port pid"
};

struct WorkerHelloReply {
  uint32_t protocol_version = kWorkerProtocolVersion;
  // UNAUTHENTICATED: the secret is not that of a lease on this worker. FAILED_PRECONDITION: an older epoch than
  // the one that rules, another cluster, another incarnation, another protocol version.
  absl::Status status;
  WorkerId worker;
  int32_t num_devices = 0;
  DeviceType device_type;
};

std::string EncodeHello(const ControllerHello& hello);
absl::StatusOr<ControllerHello> DecodeHello(std::string_view body);
std::string EncodeHelloReply(const WorkerHelloReply& reply);
absl::StatusOr<WorkerHelloReply> DecodeHelloReply(std::string_view body);

}  // namespace switchtower
