// Whose a slice is, for people.
#pragma once

#include <cstdint>
#include <string>

namespace switchtower {

struct SliceHome {
  std::string slice;   // its name
  uint64_t epoch = 0;  // of the lease that holds it (S-3)
  bool shared = false;
  std::string door;  // "host:port" of the proxy that holds it, if it told
};

}  // namespace switchtower
