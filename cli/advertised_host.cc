#include "cli/advertised_host.h"

#include <unistd.h>

#include "base/net/host_port.h"
#include "cli/flags.h"

namespace switchtower {
namespace {

constexpr char kAll[] = "0.0.0.0";
constexpr char kAllV6[] = "::";

}  // namespace

void AddBind(CLI::App* app, std::string& bind) {
  AddFlag(app, "bind", bind, "address to listen on; 0.0.0.0 or :: for all (trusted networks only)")
      ->transform([](const std::string& host) {
        const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
        return in_brackets ? host.substr(1, host.size() - 2) : host;
      });
}

std::string AdvertisedHost(const std::string& bind, const std::string& advertise_host) {
  if (!advertise_host.empty() || (bind != kAll && bind != kAllV6)) return advertise_host;
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string LocalAddress(const std::string& bind, int port) {
  return HostPort(bind == kAll ? "127.0.0.1" : bind == kAllV6 ? "::1" : bind, port);
}

}  // namespace switchtower
