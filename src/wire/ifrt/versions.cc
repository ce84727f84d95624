#include "wire/ifrt/versions.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

absl::StatusOr<int> Highest(std::string_view what, int client_min, int client_max, int own_min, int own_max) {
  const int version = std::min(client_max, own_max);
  if (version < client_min || version < own_min) {
    return absl::FailedPreconditionError(
        fmt::format("no common {}: the client offers {} to {}, this server speaks {} to {}", what, client_min,
                    client_max, own_min, own_max));
  }
  return version;
}

}  // namespace

absl::StatusOr<ProxyVersion> NegotiateVersion(const ProxyVersion& client_min, const ProxyVersion& client_max,
                                              int protocol_max) {
  ProxyVersion version;
  ASSIGN_OR_RETURN(version.protocol, Highest("IFRT proxy protocol", client_min.protocol, client_max.protocol,
                                             kProtocolMin, std::min(protocol_max, kProtocolMax)));
  ASSIGN_OR_RETURN(version.serdes,
                   Highest("IFRT serialisation version", client_min.serdes, client_max.serdes, kSerdesMin, kSerdesMax));
  return version;
}

absl::Status CheckVersion(const ProxyVersion& version) { return NegotiateVersion(version, version).status(); }

}  // namespace switchtower
