// What the devices of a plug-in are, asked of a child process: a proxy must not load the plug-in itself, whose
// bugs and threads would then be its own.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "types/device.h"

namespace switchtower {

// Runs `switchtower probe`. Blocks until it has answered.
absl::StatusOr<DeviceType> ProbeDeviceTypeInChild(const std::string& pjrt_plugin);

// The text that `switchtower probe` prints: one line for each field.
std::string FormatDeviceType(const DeviceType& type);
absl::StatusOr<DeviceType> ParseDeviceType(const std::string& text);

}  // namespace switchtower
