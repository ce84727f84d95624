// Which versions of the IFRT proxy protocol, and of its serialised messages, we speak.
//
// Place:  wire/ifrt; pure values.
// Errors: FailedPrecondition, with both ranges in the sentence, if client and server have none in common.
#pragma once

#include "absl/status/statusor.h"

namespace switchtower {

struct ProxyVersion {
  int protocol = 0;
  int serdes = 0;  // version of serialised programs, options and shardings
  friend bool operator==(const ProxyVersion&, const ProxyVersion&) = default;
};

// What became possible at which protocol version.
inline constexpr int kProtocolMin = 16;
inline constexpr int kProtocolFetchExecuteResult = 21;
inline constexpr int kProtocolDevicePlatformName = 22;
inline constexpr int kProtocolMax = 25;

// Below 3 a client can't serialise programs; above it options come that we don't know.
inline constexpr int kSerdesMin = 3;
inline constexpr int kSerdesMax = 3;

// The highest versions that both sides know; of the protocol, at most `protocol_max`.
absl::StatusOr<ProxyVersion> NegotiateVersion(const ProxyVersion& client_min, const ProxyVersion& client_max,
                                              int protocol_max = kProtocolMax);

// For a session that names its version: it must be one that NegotiateVersion can answer.
absl::Status CheckVersion(const ProxyVersion& version);

}  // namespace switchtower
