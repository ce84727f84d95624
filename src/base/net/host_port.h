// A host and a port in one word, as URLs, gRPC and Address::Parse take it: host:port, [::1]:port.
//
// Place: base/net.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace switchtower {

inline std::string HostPort(std::string_view host, int port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

}  // namespace switchtower
