// Names in the metadata of the door's calls.
#pragma once

namespace switchtower {

// The IFRT proxy protocol's own.
inline constexpr char kSessionMetadataKey[] = "ifrt-proxy-grpc-ifrt-session-metadata-bin";
inline constexpr char kStoreMetadataKey[] = "ifrt-proxy-grpc-host-buffer-store-metadata-bin";

// Of a session's stream that another proxy brings: its client's address, for people. Whoever sets it isn't taken
// further; it gives no other right.
inline constexpr char kRelayedForKey[] = "switchtower-relayed-for";
// The answer to it, in the initial metadata: the session's number, 0 if it is refused (the first reply tells why).
inline constexpr char kRelayedSessionKey[] = "switchtower-relayed-session";
// Beside it: the key of the session's host buffers.
inline constexpr char kRelayedBuffersKey[] = "switchtower-relayed-buffers";

}  // namespace switchtower
