// What a client's compile options mean here, and the options that the plug-in is given.
//
// A client's options name its virtual devices, may carry flags of its own XLA and aren't trusted: flags that
// make the compiler read or write files, load code, or hand text to LLVM's command line are dropped where
// they come from the client's environment, and refused where the user named them.
//
// Place:    compiler; the controller uses ParseClientOptions for the order of devices.
// Threads:  any; pure functions.
// Errors:   InvalidArgument: not a CompileOptionsProto, or contradicting itself. Unimplemented: what Switchtower
//           doesn't do, in a sentence for the user.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// XLA's CPU client numbers at most this many devices in a process.
inline constexpr int32_t kMaxPartitions = 2048;

struct ClientOptions {
  int32_t num_partitions = 1;
  // Device ids as the client knows them, by rank. Empty if the client named none (one partition only).
  std::vector<int64_t> device_ids;
  // Allow-listed, without device ids: two requests that differ only in devices are equal here.
  xla::CompileOptionsProto options;
};

absl::StatusOr<ClientOptions> ParseClientOptions(std::string_view serialised);
// Whether XLA can compile a program of so many partitions.
absl::Status CheckPartitions(const ClientOptions& client);

// Equal bytes for equal meaning: for hashing.
std::string CanonicalBytes(const ClientOptions& client);

// For the compile on a client with num_partitions devices: ranks 0..N-1 on devices 0..N-1.
std::string CaptureOptions(const ClientOptions& client);

// For the one pass that a program of one partition needs: StableHLO to a portable executable.
std::string SinglePassOptions(const ClientOptions& client);

// For code generation of a module that is partitioned and optimised already, to a portable executable of
// one partition. `shapes`: the module's own (host_program_shape); without them the engine would give the results
// default layouts, which lack the bit width that the code of packed types (s4) writes.
std::string BackendOptions(const ClientOptions& client, const xla::ProgramShapeProto& shapes);

}  // namespace switchtower
