// The name by which other machines reach a role.
#pragma once

#include <string>

namespace switchtower {

inline constexpr char kAdvertiseHostHelp[] =
    "name or address that other hosts reach this one by; default: the host's name if --bind is 0.0.0.0";

// What --advertise-host says, or its default. Empty: the address that --bind names.
std::string AdvertisedHost(const std::string& bind, const std::string& advertise_host);

}  // namespace switchtower
