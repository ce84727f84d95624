// What the devices of a plug-in are: the type that programs are compiled for.
//
// Place:    worker/engine; also for the compiler's side of the comparison of device types.
// Threads:  pure but for reading /proc/cpuinfo and the plug-in's file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pjrt/client.h"
#include "types/device.h"

namespace switchtower {

// Platform, kind and memories from the first device; the instruction set from CPU and plug-in build, since
// serialised native code fits neither another CPU nor another build.
absl::StatusOr<DeviceType> ProbeDeviceType(const pjrt::Client& client);

// "Intel(R) Xeon(R) CPU 1f3a9c0d2b4e6f80": model and a hash of feature flags, plug-in build and C API version.
// `cpuinfo` is the text of /proc/cpuinfo, `build` identifies the plug-in.
std::string DescribeInstructionSet(const std::string& cpuinfo, const std::string& build);

}  // namespace switchtower
