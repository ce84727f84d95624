// Which host a process is on, for deciding whether two of them can share memory.
#pragma once

#include <string>

namespace switchtower {

// Kernel boot, network namespace (abstract sockets are found only inside one) and user (a peer's must be
// our own) in one opaque string. Never empty.
std::string LocalHostId();

}  // namespace switchtower
