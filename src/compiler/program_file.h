// The bytes of one file of the program cache.
//
// Place:    compiler; used by ProgramCache.
// Threads:  any; pure functions.
// Errors:   DecodeProgramFile: InvalidArgument with what is wrong; bytes from a file may be anything.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "types/program.h"

namespace switchtower {

absl::StatusOr<std::string> EncodeProgramFile(const CompiledProgram& program);
absl::StatusOr<CompiledProgram> DecodeProgramFile(std::string_view bytes);

}  // namespace switchtower
