// Where a role listens, and what it is reached by.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace switchtower {

inline constexpr char kAdvertiseHostHelp[] =
    "name or address that other hosts reach this one by; default: the host's name if --bind is 0.0.0.0 or ::";

// --bind, for which ::1 and [::1] are one.
void AddBind(CLI::App* app, std::string& bind);

// What --advertise-host says, or its default. Empty: the address that --bind names.
std::string AdvertisedHost(const std::string& bind, const std::string& advertise_host);

// HOST:PORT by which this machine's own programs reach what listens there.
std::string LocalAddress(const std::string& bind, int port);

}  // namespace switchtower
