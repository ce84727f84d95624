// CompiledProgram as bytes: between the compiler processes and the proxy, and in the cache's files.
//
// Place:    compiler; the one place here that knows both forms.
// Threads:  any.
// Errors:   FromProto: InvalidArgument where a value can't be what ToProto wrote.
#pragma once

#include "absl/status/statusor.h"
#include "switchtower/compiler.pb.h"
#include "types/program.h"

namespace switchtower {

compiler::CompiledProgram ToProto(const CompiledProgram& program);
// Takes the big strings out of `proto`.
absl::StatusOr<CompiledProgram> FromProto(compiler::CompiledProgram&& proto);
// The program of an answer without an error. FailedPrecondition: it is another one than `id`.
absl::StatusOr<CompiledProgram> ProgramOf(compiler::CompileAnswer&& answer, const ProgramId& id);

}  // namespace switchtower
