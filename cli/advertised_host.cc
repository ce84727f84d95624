#include "cli/advertised_host.h"

#include <unistd.h>

namespace switchtower {

std::string AdvertisedHost(const std::string& bind, const std::string& advertise_host) {
  if (!advertise_host.empty() || bind != "0.0.0.0") return advertise_host;
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace switchtower
