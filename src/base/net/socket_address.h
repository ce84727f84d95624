// Private to base/net: addresses as the kernel wants them.
#pragma once

#include <sys/socket.h>

#include <vector>

#include "absl/status/statusor.h"
#include "base/net/address.h"

namespace switchtower {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

enum class Lookup { kNumericOnly, kMayBlock };
// Unix addresses and numeric hosts need no lookup. NotFound if kNumericOnly isn't enough.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const Address& address, Lookup lookup);

// Options that all our stream sockets have: no delay, and a dead host is noticed within half a minute.
void ConfigureStream(int fd, int family);

}  // namespace switchtower
