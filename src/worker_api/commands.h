// The contract from controller to worker: commands as values.
//
// A controller sends each worker one ordered stream of commands; a worker resolves the ids in a command
// when it takes it in, in stream order, so a later command may use what an earlier one promised and a
// DeleteArrays never hurts work that was sent before it. Commands that concern several workers are the
// same value for all of them: each picks what is its own by its WorkerId.
//
// An entry of a worker's store is named by (ArrayKey, device ordinal) and is pending, a value or an error
// with its first cause. Every entry that a command promises is filled with a value or an error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "types/device.h"
#include "types/ids.h"
#include "types/shape.h"
#include "types/sharding.h"

namespace switchtower {

// How a worker reaches another on the data plane; from the lease, distributed by the controller.
struct WorkerEndpoint {
  WorkerId worker;
  std::string host_id;                 // equal on workers that can share memory
  std::vector<std::string> addresses;  // "unix-abstract:...", "tcp:host:port"
  std::string secret;                  // per lease
};
struct SetPeers {
  std::vector<WorkerEndpoint> peers;  // replaces the table
};

// Ranks of a program -> devices. Named by many launches, so it is told once.
struct DefineGang {
  GangId gang;
  std::vector<PhysicalDevice> ranks;
};
struct DropGang {
  GangId gang;
};

// Loads `executable` (see CompiledProgram) for all devices of the worker. Launches sent after it may use it
// at once; if loading fails, they fail with its error.
struct LoadProgram {
  ProgramId program;
  std::string name;  // for people
  std::shared_ptr<const std::string> executable;
  uint32_t num_parameters = 0;
  uint32_t num_results = 0;
  bool calls_client = false;  // its executions may take as long as functions of the client do
};
struct UnloadProgram {
  ProgramId program;
};

// A launch of a program on a gang: the value that the sequencer orders. Ids are logical.
struct Launch {
  LaunchId id;
  SessionId session;
  ProgramId program;
  GangId gang;
  std::vector<ArrayId> arguments;
  std::vector<ArrayId> results;
  // Parameter indices whose buffer the program may reuse. A permission: the worker doesn't use it where
  // another array shares the buffer. Afterwards the argument's entry reads as "donated" (an error).
  std::vector<uint32_t> donated;
  // What the client calls this launch (jax's launch_id); for people.
  int32_t client_launch_id = 0;
  // The client will most likely wait for it: its end is told at once.
  bool awaited = false;
};

// Drops `launch` where it hasn't started, and ends its pending collectives with `cause`; its unfilled
// results become `cause`.
struct CancelLaunch {
  LaunchId launch;
  absl::Status cause;
};

// Makes entries of `array` on `devices` from the host bytes of `stream`, which arrive in StreamChunks.
// The same bytes go to every device named. kString arrays keep their bytes as they are.
struct PutArray {
  ArrayKey array;
  std::vector<PhysicalDevice> devices;
  Shape shard_shape;
  std::optional<std::vector<int64_t>> byte_strides;  // absent: dense row-major
  Layout layout;                                     // of the buffer to be made
  std::string memory_kind;                           // empty: default
  StreamId stream;
  uint64_t stream_bytes = 0;  // what will arrive in all; of strings it isn't known
};

// A piece of a stream, in order. The first chunk may come before or after the commands that use the stream.
// A worker keeps a stream's bytes until `last` and until each of the `uses` PutArray commands naming it was
// served.
struct StreamChunk {
  StreamId stream;
  std::shared_ptr<const std::string> data;
  bool last = false;
  // How many PutArray commands, of those sent to this worker, name the stream; set on the last chunk.
  uint32_t uses = 1;
  absl::Status error;  // not OK: the stream ends here; arrays made from it become this error
};

// Each entry `to` on `device` becomes another name of the buffer that `from` names there.
struct BindArrays {
  struct Binding {
    ArrayId from;
    ArrayId to;
    PhysicalDevice device;
  };
  SessionId session;
  std::vector<Binding> bindings;
};

// Fills entries with an error at once (MakeErrorArrays, a failed producer that was never launched).
struct PutError {
  ArrayKey array;
  std::vector<PhysicalDevice> devices;
  absl::Status error;
};

// Builds entries of `to` from pieces of entries of `from`, across devices, workers and memory kinds. The
// sending worker starts as soon as the source has its value; a failed source makes the destination fail
// with the same cause.
struct TransferArray {
  struct Piece {
    PhysicalDevice source;
    PhysicalDevice destination;
    Box source_box;       // inside the source shard
    Box destination_box;  // inside the destination shard; same size
  };
  // Names the transfer on the wire between workers; a LaunchId from the sequencer, so it is never reused.
  LaunchId id;
  SessionId session;
  ArrayId from;
  ArrayId to;
  struct Destination {
    PhysicalDevice device;
    Shape shard_shape;
  };
  std::vector<Destination> destinations;
  Layout layout;              // of the destination buffers
  std::string memory_kind;    // of the destination; empty: default
  std::vector<Piece> pieces;  // together they cover each destination shard exactly once
};

// Answered by ReadData events on this worker's stream: the shard's bytes as they shall lie in the client's
// host buffer (dense row-major, or `byte_strides`: then the minimal strided region).
struct ReadShard {
  RequestId request;
  ArrayKey array;
  PhysicalDevice device;
  std::optional<std::vector<int64_t>> byte_strides;
};

// Answered by one Ready event once every entry of the named arrays on this worker has a value (computed, not
// merely promised), or with the first error in the order of `arrays`.
struct AwaitReady {
  RequestId request;
  SessionId session;
  std::vector<ArrayId> arrays;
};

struct DeleteArrays {
  SessionId session;
  std::vector<ArrayId> arrays;
};

// Answered by one MemoryInUse event.
struct AskMemory {
  RequestId request;
};

// From now on, or no longer, LaunchTimes come ahead of the watermarks, and TransferTimes.
struct ReportTimes {
  bool on = false;
};

// Answered by one WorkerActivity event, whatever the devices are at.
struct AskActivity {
  RequestId request;
};

// The answer to a HostCall: the results one after the other, or why there are none. Too late is no error.
struct ReturnHostCall {
  RequestId request;
  absl::Status status;
  std::shared_ptr<const std::string> data;
};

// Frees everything that the session has on the worker.
struct EndSession {
  SessionId session;
};

using WorkerCommand = std::variant<SetPeers, DefineGang, DropGang, LoadProgram, UnloadProgram, Launch, CancelLaunch,
                                   PutArray, StreamChunk, BindArrays, PutError, TransferArray, ReadShard, AwaitReady,
                                   DeleteArrays, EndSession, ReturnHostCall, AskMemory, ReportTimes, AskActivity>;

}  // namespace switchtower
