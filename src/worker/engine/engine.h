// The device engine of a worker: buffers, programs and execution on the devices of one process.
//
// Place:    worker/engine; under the store, the device queues and the collectives. PjrtEngine is the real
//           one, FakeEngine a small one in memory for tests.
// Threads:  any method from any thread, unless it says otherwise. Callbacks run on threads of the engine, or at
//           once on the caller's: they must be short and must not call back into waits.
// Lifetime: buffers and programs may outlive the Engine object; what runs on the devices then ends first.
// Errors:   absl::Status. A buffer whose producer failed exists and gives the error from OnReady and ToHost.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "types/device.h"
#include "types/ids.h"
#include "types/program.h"
#include "types/shape.h"

namespace switchtower {

// Where engines of one slice find each other: plug-ins with native collectives across hosts need it.
class EngineKeyValueStore {
 public:
  virtual ~EngineKeyValueStore() = default;
  virtual absl::StatusOr<std::string> Get(const std::string& key, int timeout_ms) = 0;
  virtual absl::Status Put(const std::string& key, const std::string& value) = 0;
};

// This process's place in its slice. The engine is made anew when the slice re-forms.
struct SliceMembership {
  int32_t process_index = 0;
  int32_t process_count = 1;
  EngineKeyValueStore* store = nullptr;  // may be null with one process; outlives the engine
};

struct EngineOptions {
  std::string plugin_path;
  int32_t device_count = 1;  // CPU: how many devices to make. Others: how many of those found to use, 0 for all
  SliceMembership slice;
};

struct EngineCapabilities {
  bool host_readable = false;  // HostView works: device memory is host memory
};

using StatusCallback = absl::AnyInvocable<void(absl::Status)>;

// One array on one device. Held by shared_ptr: whoever still has to read it keeps it.
class EngineBuffer {
 public:
  virtual ~EngineBuffer() = default;
  EngineBuffer() = default;
  EngineBuffer(const EngineBuffer&) = delete;
  EngineBuffer& operator=(const EngineBuffer&) = delete;

  virtual int32_t device() const = 0;  // ordinal
  virtual const Shape& shape() const = 0;
  virtual const Layout& layout() const = 0;
  virtual const std::string& memory_kind() const = 0;
  virtual int64_t bytes() const = 0;  // in its memory
  // Called once, when the value or its error is there.
  virtual void OnReady(StatusCallback callback) = 0;
  // True after Delete or a donation: the value can't be used any more.
  virtual bool IsDeleted() const = 0;
  // Gives the memory back now, though others may hold the object.
  virtual void Delete() = 0;
  // The bytes in place: dense, in layout(), sub-byte elements one a byte or packed as `packed` tells. Only
  // after OnReady and while the buffer is neither deleted nor donated. Unimplemented without host_readable.
  struct View {
    const void* data = nullptr;
    int64_t size = 0;
    bool packed = false;
  };
  virtual absl::StatusOr<View> HostView() = 0;
};
using EngineBufferPtr = std::shared_ptr<EngineBuffer>;

// A loaded program: one for all devices of the engine.
class EngineProgram {
 public:
  virtual ~EngineProgram() = default;
  virtual int64_t num_outputs() const = 0;
  virtual const std::string& name() const = 0;
};
using EngineProgramPtr = std::shared_ptr<const EngineProgram>;

// What FFI handlers of an execution get: data of the type that RegisterFfiType numbered. Alive until `done`.
struct EngineUserData {
  int64_t type_id = 0;  // 0: none
  void* data = nullptr;
};

struct EngineExecution {
  int32_t device = 0;
  EngineProgramPtr program;
  std::vector<EngineBufferPtr> arguments;
  std::vector<int64_t> non_donatable;  // argument positions that must survive
  EngineUserData user_data;
  int32_t launch_number = 0;  // for the plug-in's own matching and traces
};

struct HostData {
  const void* data = nullptr;
  std::shared_ptr<const void> owner;  // kept until the bytes have been read
  Shape shape;
  // Bytes between neighbours of each dimension; empty: dense, row major. Sub-byte elements take one byte each.
  std::vector<int64_t> byte_strides;
};

class Engine {
 public:
  virtual ~Engine() = default;
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  virtual const EngineCapabilities& capabilities() const = 0;
  virtual const DeviceType& device_type() const = 0;
  virtual int32_t device_count() const = 0;
  // For people: "TFRT_CPU_0".
  virtual std::string DeviceName(int32_t device) const = 0;
  // Bytes in use and limit as the plug-in counts them; Unimplemented where it doesn't.
  struct MemoryUse {
    int64_t in_use = 0;
    std::optional<int64_t> peak, limit;
  };
  virtual absl::StatusOr<MemoryUse> GetMemoryUse(int32_t device) const = 0;

  // Loads serialised bytes (CompiledProgram::executable). Slow: not on a dispatch thread.
  virtual absl::StatusOr<EngineProgramPtr> LoadProgram(std::string_view executable) = 0;

  // Runs the program on one device. Its outputs may be pending when this returns, and the call may block as
  // long as the program runs: one dispatch thread for each device. `done` is called exactly once, with the
  // outcome, also when the returned status is an error; it may come before this returns.
  // Arguments that the program takes over are deleted once it has begun, whatever the outcome.
  virtual absl::StatusOr<std::vector<EngineBufferPtr>> Execute(const EngineExecution& execution,
                                                               StatusCallback done) = 0;

  // Empty kind: the device's default memory. `layout` is the one inside the device.
  virtual absl::StatusOr<EngineBufferPtr> FromHost(int32_t device, const std::string& memory_kind, const HostData& host,
                                                   const std::optional<Layout>& layout = std::nullopt) = 0;
  // Writes the value, dense and in `layout` (row major without), sub-byte elements one byte each and
  // sign-extended; `size` must be shape().host_bytes(). `destination` stays valid until `done`.
  virtual void ToHost(const EngineBufferPtr& buffer, void* destination, int64_t size,
                      const std::optional<Layout>& layout, StatusCallback done) = 0;
  // A copy of its own, on the same device.
  virtual absl::StatusOr<EngineBufferPtr> CopyToMemory(const EngineBufferPtr& buffer,
                                                       const std::string& memory_kind) = 0;
  // A copy of its own on another device of this engine (or the same).
  virtual absl::StatusOr<EngineBufferPtr> CopyToDevice(const EngineBufferPtr& buffer, int32_t device,
                                                       const std::string& memory_kind) = 0;

  // XLA FFI: `handler` is an XLA_FFI_Handler*. Register before loading programs that call it.
  virtual absl::StatusOr<int64_t> RegisterFfiType(const std::string& name) = 0;
  virtual absl::Status RegisterFfiHandler(const std::string& target, void* handler) = 0;
};

}  // namespace switchtower
