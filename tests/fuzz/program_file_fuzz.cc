// A file of the program cache. The checksum keeps a fuzzer from what lies behind it, so the input is also taken for the
// program itself: a file made of it is read as it was written.
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "compiler/program_file.h"
#include "compiler/program_proto.h"
#include "tests/fuzz/proto_target.h"

namespace switchtower::fuzz {
namespace {

void Run(const compiler::CompiledProgram& input) {
  auto program = FromProto(compiler::CompiledProgram(input));
  if (!program.ok()) return;
  const auto file = EncodeProgramFile(*program);
  CHECK(file.ok());
  const auto read = DecodeProgramFile(*file);
  CHECK(read.ok());
  CHECK(read->id == program->id && read->executable == program->executable && read->hlo_text == program->hlo_text);
  CHECK(read->info.parameters.size() == program->info.parameters.size());
  CHECK(read->info.results.size() == program->info.results.size());
}

}  // namespace
}  // namespace switchtower::fuzz

std::unique_ptr<google::protobuf::Message> switchtower::fuzz::NewInput() {
  return std::make_unique<switchtower::compiler::CompiledProgram>();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)switchtower::DecodeProgramFile({reinterpret_cast<const char*>(data), size});
  return switchtower::fuzz::RunOnMessage<switchtower::compiler::CompiledProgram>(data, size, switchtower::fuzz::Run);
}
