// Handlers that let a compiler process generate code for custom calls which only workers can run.
//
// XLA looks a custom call's handler up when it generates code; the code itself names it, and the worker that
// loads the program looks it up again. So any handler will do here.
//
// Place:    compiler; CompilerMain, once.
// Threads:  any.
// Errors:   the plug-in's.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pjrt/plugin.h"

namespace switchtower {

absl::Status RegisterStubHandlers(pjrt::Plugin& plugin, const std::vector<std::string>& targets);

// The targets that lowered programs call (hlo/collective_calls.h).
std::vector<std::string> CollectiveTargets();

// The targets that programs from outside may call, since workers have them (hlo/native_calls.h).
std::vector<std::string> NativeTargets();

}  // namespace switchtower
