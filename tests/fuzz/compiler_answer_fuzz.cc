// What a compiler's process writes to its socket: frames that lie about their length, in pieces, and answers in them.
// The process has run XLA on a client's program, so its bytes are as good as the client's.
//
// A frame takes no more memory than what came of it, and its bytes are those that came. An error towards a client can't
// read like a lost slice. What a program's description can do behind this is for the target `session`.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "compiler/compile_error.h"
#include "compiler/frame_io.h"
#include "compiler/program_proto.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"

namespace switchtower::fuzz {
namespace {

constexpr size_t kUnusedMax = 64 * 1024;

void ReadAnswer(const std::string& bytes) {
  compiler::CompileAnswer answer;
  if (!answer.ParseFromString(bytes)) return;
  if (answer.code() != 0) {
    const absl::Status error =
        AsCompileError(absl::Status(static_cast<absl::StatusCode>(answer.code()), answer.message()));
    CHECK(!error.ok() && !absl::IsDataLoss(error) && !absl::IsInternal(error) && !absl::IsUnavailable(error));
    CHECK(std::string(error.message()).find("DATA_LOSS") == std::string::npos);
    return;
  }
  const ProgramId id{answer.program().hash()};
  const auto program = ProgramOf(std::move(answer), id);
  if (!program.ok()) return;
  const auto again = FromProto(ToProto(*program));
  CHECK(again.ok());
  CHECK(ToProto(*again).SerializeAsString().size() == ToProto(*program).SerializeAsString().size());
}

void Run(const CompilerAnswerInput& input) {
  std::string stream = input.before();
  const std::string answer = input.answer().SerializeAsString();
  stream += FrameHeader(answer.size() + static_cast<uint64_t>(input.told_more())) + answer + input.after();
  const size_t piece = size_t{1} + input.piece();
  FrameReader reader;
  size_t taken = 0;
  while (taken < stream.size()) {
    const absl::Span<char> room = reader.Room();
    CHECK(!room.empty() && room.size() <= std::max(kUnusedMax, taken));
    const size_t size = stream.copy(room.data(), std::min(room.size(), piece), taken);
    taken += size;
    if (!reader.Took(size).ok()) return;
    if (reader.complete()) break;
  }
  if (!reader.complete()) return;
  const std::string frame = std::move(reader).Take();
  CHECK(FrameHeader(frame.size()) + frame == std::string_view(stream).substr(0, taken));
  ReadAnswer(frame);
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::CompilerAnswerInput, switchtower::fuzz::Run)
