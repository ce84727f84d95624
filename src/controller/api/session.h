// What a front door may ask of the controller: one Session for each client, with arrays and programs as
// logical values. Nothing physical passes this border.
//
// Threads:  a Session's methods are called on the door's strand of that session, one at a time. Callbacks
//           run on any thread and must only post.
// Errors:   methods that make arrays always bind the result ids: if they fail, the ids are bound to the error
//           (and it is returned, so that the door can answer with it). Errors carry user context (payload
//           kUserContextPayload) of the request that first failed.
// Lifetime: Close() ends everything that the session has, everywhere; the object stays until destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "types/device.h"
#include "types/ids.h"
#include "types/program.h"
#include "types/shape.h"
#include "types/sharding.h"

namespace switchtower {

// Payload of an absl::Status: the decimal user_context_id of the guilty request. The client expands it into
// the Python stack that made the request.
inline constexpr char kUserContextPayload[] = "type.googleapis.com/ifrt.UserContext";

template <typename T>
using Callback = absl::AnyInvocable<void(T)>;

struct ArraySpec {
  Shape shape;  // global
  Sharding sharding;
  std::optional<Layout> layout;  // of each shard; absent: row-major
};

// Bytes that come from the client in chunks, perhaps later than the request that uses them.
// Threads: the writer side from any one thread at a time; readers attach on any thread.
class HostBuffer {
 public:
  using Chunk = std::shared_ptr<const std::string>;
  virtual ~HostBuffer() = default;
  // Calls `on_chunk` for each chunk, past and future, in order, then `on_end` once. Callable once.
  virtual void Consume(absl::AnyInvocable<void(Chunk)> on_chunk, Callback<absl::Status> on_end) = 0;
  // Announced size in bytes, once known; -1 while no Store has begun.
  virtual int64_t size() const = 0;
};

enum class CopySemantics { kAlwaysCopy, kReuseInput, kDonateInput };

// "Shards `shard_positions` of the array hold these bytes."
struct HostShard {
  std::vector<int32_t> shard_positions;
  std::shared_ptr<HostBuffer> buffer;
  std::optional<std::vector<int64_t>> byte_strides;  // absent: dense row-major
};

struct ExecuteRequest {
  uint64_t executable = 0;  // handle from Compile
  std::vector<ArrayId> arguments;
  std::vector<ArrayId> results;         // empty on the first call: the controller draws ids >= 2^48
  std::vector<uint32_t> non_donatable;  // parameter indices
  int32_t launch_id = 0;
  uint64_t user_context = 0;
  std::string call_site;  // "train.py:12", the client's line that asked for it; empty if it doesn't tell
};
struct ExecuteReply {
  std::vector<ArrayId> results;
  // As results; only where no result ids were named (the first call). They never change for one executable.
  std::vector<ArraySpec> specs;
};

// Remap: shard `from_shard` of inputs[in] becomes shard `to_shard` of outputs[out].
struct ShardMapping {
  int32_t in = 0, out = 0;
  int32_t from_shard = 0, to_shard = 0;
};

struct MemoryDescription {
  int32_t id = 0;
  std::string kind;
  int32_t kind_id = 0;
  DeviceId device;
};
struct SessionDescription {
  SessionId id;
  std::string platform_name;  // "cpu"
  std::string platform_version;
  std::string device_kind;
  uint64_t platform_id = 0;
  std::vector<VirtualDevice> devices;     // in id order
  std::vector<std::string> memory_kinds;  // of each device; first is the default
  std::vector<MemoryDescription> memories;
  std::map<std::string, std::string> attributes;
};

struct CompileReply {
  uint64_t executable = 0;  // server handle >= 2^48
  std::string name;
  std::string fingerprint;
  std::vector<DeviceId> devices;  // by rank
};

// A running program calls a function in the client's process; its launch waits for the answer.
struct ClientCall {
  uint64_t callback = 0;  // as the client numbered it
  LaunchId launch;
  DeviceId device;
  // In the order of the call; a token has no bytes. Dense and row major, types below a byte packed.
  std::vector<Shape> operands;
  std::vector<Shape> results;
  std::shared_ptr<const std::string> data;  // the operands, one after the other
  // The results, likewise. Exactly once, on any thread.
  Callback<absl::StatusOr<std::shared_ptr<const std::string>>> answer;
};

// Who takes a session's calls to its client. Called on any thread; the methods must only post.
class ClientCallServer {
 public:
  virtual ~ClientCallServer() = default;
  virtual void OnCall(ClientCall call) = 0;
  // A program that may call these functions has come. It can't any more once what is returned is gone: its
  // executable was destructed and its launches have ended.
  virtual std::shared_ptr<const void> Hold(absl::Span<const uint64_t> callbacks) = 0;
};

struct DeviceMemory {
  DeviceId device;
  int64_t bytes_in_use = 0;
  int64_t peak_bytes_in_use = 0;
  int64_t bytes_limit = 0;  // 0: not limited
};

class Session {
 public:
  virtual ~Session() = default;

  // Before the first request. Until then, and without it, calls to the client fail.
  virtual void ServeCalls(std::shared_ptr<ClientCallServer> server) = 0;
  // Tells what this session's devices hold, of all sessions together. May be called on any thread and after the
  // session's end (then with nothing).
  virtual std::function<void(Callback<std::vector<DeviceMemory>>)> MemorySource() = 0;

  virtual const SessionDescription& description() const = 0;

  // A server-drawn handle (>= 2^48), unique in the session, never an array's or executable's.
  virtual uint64_t NewHandle() = 0;

  // ---- arrays. `user_context` of the request is kept with what it makes. A result id that is in use already
  // keeps what it stands for, and the request is InvalidArgument.
  virtual absl::Status MakeArray(ArrayId result, const ArraySpec& spec, std::vector<HostShard> shards,
                                 uint64_t user_context) = 0;
  virtual void MakeErrorArray(ArrayId result, const ArraySpec& spec, absl::Status error) = 0;
  // Binds an id to an error when a request failed before it could be described at all (a bad proto).
  virtual void BindError(ArrayId result, absl::Status error) = 0;
  // A dtype of kInvalid in `spec` stands for that of the parts.
  virtual absl::Status Assemble(ArrayId result, const ArraySpec& spec, absl::Span<const ArrayId> parts,
                                CopySemantics semantics, uint64_t user_context) = 0;
  virtual absl::Status Disassemble(ArrayId array, absl::Span<const ArrayId> results, CopySemantics semantics,
                                   uint64_t user_context) = 0;
  virtual absl::Status FullyReplicatedShard(ArrayId array, ArrayId result, CopySemantics semantics,
                                            uint64_t user_context) = 0;
  // Same shards on other devices (`devices` empty: the same) and / or in another memory kind.
  virtual absl::Status Copy(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                            absl::Span<const DeviceId> devices, const std::optional<std::string>& memory_kind,
                            CopySemantics semantics, uint64_t user_context) = 0;
  virtual absl::Status Remap(absl::Span<const ArrayId> arrays, absl::Span<const ArraySpec> inputs,
                             absl::Span<const ArrayId> results, absl::Span<const ArraySpec> outputs,
                             absl::Span<const ShardMapping> mappings, CopySemantics semantics,
                             uint64_t user_context) = 0;
  virtual absl::Status Reshard(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                               absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) = 0;
  // Same bytes seen as another dtype / shape, shard by shard.
  virtual absl::Status Bitcast(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                               absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) = 0;
  virtual void WhenReady(absl::Span<const ArrayId> arrays, Callback<absl::Status> done) = 0;
  // The array's only (or, fully replicated, first) shard as dense row-major or strided bytes. Strides that
  // would spread it over several times its size are InvalidArgument. Strings: a serialised
  // StringArrayContents, as they were put.
  virtual void Read(ArrayId array, std::optional<std::vector<int64_t>> byte_strides,
                    Callback<absl::StatusOr<std::vector<HostBuffer::Chunk>>> done) = 0;
  // What an array is, if it is one and not an error.
  virtual absl::StatusOr<ArraySpec> Spec(ArrayId array) = 0;
  virtual absl::StatusOr<bool> IsDeleted(ArrayId array) = 0;
  // Delete frees the buffers, the id stays known as deleted; Destruct forgets the id too.
  virtual absl::Status Delete(absl::Span<const ArrayId> arrays) = 0;
  virtual absl::Status Destruct(absl::Span<const ArrayId> arrays) = 0;
  virtual absl::StatusOr<Layout> DefaultLayout(const Shape& shape, DeviceId device, const std::string& memory_kind) = 0;

  // ---- programs
  // `module`: StableHLO bytes as sent by the client. `options`: serialised xla.CompileOptionsProto.
  // `done` runs once compilation ended; loading on the workers goes on by itself.
  virtual void Compile(std::string module, std::string options, uint64_t user_context,
                       Callback<absl::StatusOr<CompileReply>> done) = 0;
  virtual absl::StatusOr<std::shared_ptr<const CompiledProgram>> Program(uint64_t executable) = 0;
  // Device order by rank of the executable.
  virtual absl::StatusOr<std::vector<DeviceId>> ProgramDevices(uint64_t executable) = 0;
  // `on_status` gets the launch's end.
  virtual absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request, Callback<absl::Status> on_status) = 0;
  virtual absl::Status DestructExecutable(uint64_t executable) = 0;

  // Launches not yet ended, and what else is under way: operations that wait for their turn, questions for values and
  // compiles without an answer. The door stops reading a client's stream while this is above its bound.
  virtual size_t under_way() const = 0;
  // `resume` runs (once) when under_way falls below `bound`.
  virtual void WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) = 0;

  virtual void Close(absl::Status reason) = 0;
};

struct SessionRequest {
  // From initialization_data: the same words as --virtual_slices ("cpu:2x2,cpu:2x2"). Empty: the proxy's default.
  std::string virtual_slices;
  std::string peer;  // client's address, for people
  // From initialization_data too: numbers, as text. Empty: 1 and 0.
  std::string weight;    // share of device time beside other sessions
  std::string priority;  // larger goes first
};

class Controller {
 public:
  virtual ~Controller() = default;
  // May wait for a lease; `done` runs on any thread. A session opens before its workers are in if its slice
  // types are known.
  virtual void OpenSession(const SessionRequest& request, Callback<absl::StatusOr<std::unique_ptr<Session>>> done) = 0;
};

}  // namespace switchtower
