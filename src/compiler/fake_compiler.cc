// A compiler process for tests: does what the module's text says.
//   "abort"  writes to stderr and aborts      "exit"   ends with status 3
//   "hang"   never answers                    "error"  answers with an error that has the words of a lost slice
//   "chatty" writes 1 MB to stderr first      "junk"   answers with bytes that are no answer
//   "wrong"  answers for another program      "pid"    answers with its process id as the text
//   "twice"  answers, and says an error that nobody asked for
// Anything else is compiled: the executable is the module's bytes.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "compiler/frame_io.h"
#include "switchtower/compiler.pb.h"

int main(int argc, char** argv) {
  using namespace switchtower;
  int fd = -1;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--fd") == 0) fd = std::atoi(argv[i + 1]);
  }
  for (;;) {
    absl::StatusOr<std::string> bytes = ReadFrame(fd);
    if (!bytes.ok()) return 0;
    compiler::CompileCall call;
    if (!call.ParseFromString(*bytes)) return 2;
    const std::string what = call.module().substr(0, call.module().find(' '));
    compiler::CompileAnswer answer;
    answer.mutable_program()->set_hash(what == "wrong" ? "other" : call.program_hash());
    answer.mutable_program()->mutable_info()->set_num_partitions(1);
    answer.mutable_program()->set_executable(call.module());
    if (what == "abort") {
      std::fputs("first line\nCheck failed: the world is flat, INTERNAL\n", stderr);
      std::abort();
    }
    if (what == "exit") return 3;
    if (what == "hang") {
      for (;;) pause();
    }
    if (what == "chatty") {
      const std::string line(99, 'x');
      for (int i = 0; i < 10'000; ++i) std::fprintf(stderr, "%s\n", line.c_str());
    }
    if (what == "error") {
      answer.Clear();
      answer.set_code(static_cast<int>(absl::StatusCode::kInternal));
      answer.set_message("INTERNAL: pass failed, NOT_FOUND: x");
    }
    if (what == "pid") answer.mutable_program()->set_hlo_text(std::to_string(getpid()));
    std::string out = what == "junk" ? std::string("\xff\xff\xff") : answer.SerializeAsString();
    if (what == "twice") {
      answer.Clear();
      answer.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
      const std::string unasked = answer.SerializeAsString();
      // In one piece, so that it is there when the proxy has read the answer.
      out = FrameHeader(out.size()) + out + FrameHeader(unasked.size()) + unasked;
      if (write(fd, out.data(), out.size()) != static_cast<ssize_t>(out.size())) return 1;
      continue;
    }
    if (!WriteFrame(fd, out).ok()) return 1;
  }
}
