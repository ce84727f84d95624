// One PJRT plug-in: a shared library with the PJRT C API, opened and initialised.
//
// Place:    pjrt; the root of this folder. Clients are made from it.
// Threads:  any method from any thread.
// Lifetime: a library is loaded once a process and never unloaded (its own statics and threads live on), so
//           the object that Load returns is valid until the process ends.
// Errors:   NotFound: no such file. FailedPrecondition: not a plug-in, or too old a C API. Unimplemented: the
//           plug-in lacks an extension. Otherwise the plug-in's own code and message.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace switchtower::pjrt {

namespace abi {
struct PJRT_Api;
struct PJRT_Extension_Base;
}  // namespace abi

class Client;

// Options and attributes, as plug-ins take and give them.
using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, Value>;

// Where in XLA's pipeline a transform is called.
enum class TransformStage { kPreScheduler = 0, kPostScheduler = 1 };

// Gets a serialised xla.HloModuleProto. Returns nullopt to leave the module as it is, new bytes to replace it,
// or an error, which ends that compile. (CPU: such a compile fails with INTERNAL and the message, whatever
// the code was, so recognise a capture by state of your own.)
//
// Called on the thread that called Client::Compile, once for each compile, of every client of the process: a
// transform is process-global. To act on one compile only, look at a thread_local that the caller of Compile
// sets around the call, and return nullopt otherwise.
using Transform = std::function<absl::StatusOr<std::optional<std::string>>(std::string_view module)>;

// Where the clients of one slice's processes find each other, for plug-ins that work across hosts. Called on
// threads of the plug-in.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Waits for the key; a timeout of 0 only looks. NotFound or DeadlineExceeded if it isn't there.
  virtual absl::StatusOr<std::string> Get(const std::string& key, int timeout_ms) = 0;
  virtual absl::Status Put(const std::string& key, const std::string& value) = 0;
};

class Plugin {
 public:
  // Opens and initialises the library at `path`; the same object for the same file.
  static absl::StatusOr<Plugin*> Load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& path() const { return path_; }
  int api_major() const { return api_major_; }
  int api_minor() const { return api_minor_; }
  const NamedValues& attributes() const { return attributes_; }

  // A client on this process's devices. CPU: {"cpu_device_count": int64_t, "asynchronous": bool}. For an asynchronous
  // one (the default) it raises the environment's PJRT_NPROC to two more than the devices: a device that waits in a
  // collective holds a thread of the CPU client's pool, and copies must go on. `store` may be null for one process.
  absl::StatusOr<std::shared_ptr<Client>> CreateClient(const NamedValues& options,
                                                       std::shared_ptr<KeyValueStore> store = nullptr);

  // XLA FFI -----------------------------------------------------------------------------------------------
  bool has_ffi() const;
  // The process-wide id for user data of that name; equal names get equal ids. With XLA's C++ FFI headers the
  // id must be stored in the user data type's static `id`.
  absl::StatusOr<int64_t> RegisterFfiType(const std::string& name);
  // `handler` is an XLA_FFI_Handler*; it is called for custom calls to `target` on `platform` ("cpu").
  // Registering the same handler again is harmless. Register before compiling or loading what calls it.
  absl::Status RegisterFfiHandler(const std::string& target, const std::string& platform, void* handler,
                                  bool command_buffer_compatible = false);

  // XlaTransform ------------------------------------------------------------------------------------------
  bool has_transform() const;
  // Registered for the rest of the process; once for each name and stage.
  absl::Status RegisterTransform(const std::string& name, TransformStage stage, Transform transform);

  // For the other classes of this folder.
  const abi::PJRT_Api* api() const { return api_; }
  // The extension with that number (abi.h), or null.
  const abi::PJRT_Extension_Base* FindExtension(int type) const;

 private:
  Plugin(std::string path, const abi::PJRT_Api* api);
  absl::Status Initialize();

  const std::string path_;
  const abi::PJRT_Api* const api_;
  int api_major_ = 0;
  int api_minor_ = 0;
  NamedValues attributes_;
};

}  // namespace switchtower::pjrt
