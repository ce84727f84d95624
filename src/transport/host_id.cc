#include "transport/host_id.h"

#include <limits.h>
#include <unistd.h>

#include <fstream>

#include <fmt/core.h>

#include "base/net/address.h"

namespace switchtower {

std::string LocalHostId() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char net[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/ns/net", net, sizeof(net));
  if (boot.empty() || size <= 0) {
    // Not to be told from another host: this process shares memory with itself alone.
    static const std::string* const unique = new std::string("unknown-" + RandomHex(16));
    return *unique;
  }
  return fmt::format("{}/{}/{}", boot, std::string_view(net, size), ::geteuid());
}

}  // namespace switchtower
