// The name of a program by its content.
//
// Place:    compiler; used by CachingCompileService.
// Threads:  any; pure functions.
//
// Programs come from clients that don't trust each other, and the id decides which native code a later request
// for "the same" program gets. So it is a cryptographic hash (SHA-256, cut to 128 bits): nobody can make a
// program that takes another's place.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/options.h"
#include "types/device.h"
#include "types/ids.h"

namespace switchtower {

// `compiler_version` names the plug-in's build; see PluginVersion.
ProgramId ProgramKey(std::string_view module, const ClientOptions& options, const DeviceType& device_type,
                     std::string_view compiler_version);

// A digest of the plug-in's file: two builds never share cached code.
absl::StatusOr<std::string> PluginVersion(const std::string& plugin_path);

}  // namespace switchtower
