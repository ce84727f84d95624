// Prints an HLO module for people, in the syntax of XLA's own text form: what compiled.as_text() shows.
//
// For reading, not for parsing back: attributes that say little are left out, long constants are shortened to
// {...}, and a location is shown as file and line.
//
// Place:    hlo; used by the compiler's pipeline on the captured module, collectives still in it.
// Threads:  pure function.
// Errors:   none; what doesn't resolve is printed as "?".
#pragma once

#include <string>

#include "xla/service/hlo.pb.h"

namespace switchtower {

std::string ModuleText(const xla::HloModuleProto& module);

}  // namespace switchtower
