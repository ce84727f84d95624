#include "compiler/compiler_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "compiler/compile_error.h"
#include "compiler/compile_pipeline.h"
#include "compiler/cpu_partitioner.h"
#include "compiler/frame_io.h"
#include "compiler/program_proto.h"
#include "compiler/stub_handlers.h"
#include "hlo/host_callbacks.h"
#include "pjrt/plugin.h"

namespace switchtower {
namespace {

struct Backend {
  std::unique_ptr<ProgramPartitioner> partitioner;
  std::unique_ptr<CompilePipeline> pipeline;
};

absl::StatusOr<Backend> MakeBackend(const std::string& plugin_path) {
  ASSIGN_OR_RETURN(pjrt::Plugin * plugin, pjrt::Plugin::Load(plugin_path));
  RETURN_IF_ERROR(RegisterStubHandlers(*plugin, CollectiveTargets()));
  RETURN_IF_ERROR(RegisterStubHandlers(*plugin, NativeTargets()));
  RETURN_IF_ERROR(RegisterStubHandlers(*plugin, HostCallbackTargets()));
  Backend backend;
  ASSIGN_OR_RETURN(backend.partitioner, CpuPartitioner::Create(*plugin));
  backend.pipeline = std::make_unique<CompilePipeline>(*backend.partitioner, NativeTargets());
  return backend;
}

// When memory runs out, the kernel shall end a compiler and not the server.
void OfferToOomKiller() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  constexpr std::string_view kScore = "500";
  [[maybe_unused]] const ssize_t n = write(fd, kScore.data(), kScore.size());
  close(fd);
}

compiler::CompileAnswer Answer(const absl::StatusOr<Backend>& backend, const std::string& bytes) {
  absl::StatusOr<CompiledProgram> program = [&]() -> absl::StatusOr<CompiledProgram> {
    RETURN_IF_ERROR(backend.status());
    compiler::CompileCall call;
    if (!call.ParseFromString(bytes)) return absl::InvalidArgumentError("the request can't be read");
    return backend->pipeline->Compile(ProgramId{call.program_hash()}, call.module(), call.options());
  }();
  compiler::CompileAnswer answer;
  if (program.ok()) {
    *answer.mutable_program() = ToProto(*program);
  } else {
    const absl::Status error = AsCompileError(program.status());
    answer.set_code(static_cast<int32_t>(error.code()));
    answer.set_message(std::string(error.message()));
  }
  return answer;
}

}  // namespace

int CompilerMain(int fd, const std::string& plugin_path) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  OfferToOomKiller();
  const absl::StatusOr<Backend> backend = MakeBackend(plugin_path);
  if (!backend.ok()) LogError("no compiler, {}", std::string(backend.status().message()));
  for (;;) {
    absl::StatusOr<std::string> call = ReadFrame(fd);
    if (!call.ok()) return absl::IsOutOfRange(call.status()) ? 0 : 1;
    compiler::CompileAnswer answer = Answer(backend, *call);
    if (answer.ByteSizeLong() > kMaxFrameBytes) {
      answer.Clear();
      answer.set_code(static_cast<int32_t>(absl::StatusCode::kResourceExhausted));
      answer.set_message("the compiled program has more than 2 GiB");
    }
    if (!WriteFrame(fd, answer.SerializeAsString()).ok()) return 1;
  }
}

}  // namespace switchtower
