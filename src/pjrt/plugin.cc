#include "pjrt/plugin.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include <fmt/core.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "pjrt/abi_extensions.h"
#include "pjrt/call.h"
#include "pjrt/client.h"

namespace switchtower::pjrt {
namespace {

Mutex g_mutex;

std::map<std::string, Plugin*>& LoadedPlugins() REQUIRES(g_mutex) {
  static auto* plugins = new std::map<std::string, Plugin*>;
  return *plugins;
}

// Ids of FFI user data types belong to the library, hence to its table.
std::map<std::pair<const abi::PJRT_Api*, std::string>, int64_t>& FfiTypes() REQUIRES(g_mutex) {
  static auto* types = new std::map<std::pair<const abi::PJRT_Api*, std::string>, int64_t>;
  return *types;
}

// Opens the library and finds its table, of a version that we can use.
absl::StatusOr<const abi::PJRT_Api*> OpenLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::FailedPreconditionError(
        fmt::format("plug-in {} can't be loaded: {}", path, why == nullptr ? "unknown reason" : why));
  }
  auto get_api = reinterpret_cast<const abi::PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    dlclose(library);
    return absl::FailedPreconditionError(fmt::format("{} is not a PJRT plug-in: it has no function GetPjrtApi", path));
  }
  const abi::PJRT_Api* api = get_api();
  if (api == nullptr) {
    return absl::FailedPreconditionError(fmt::format("plug-in {} gave no PJRT function table", path));
  }
  const abi::PJRT_Api_Version& version = api->pjrt_api_version;
  if (version.major_version != abi::kMajorVersion || version.minor_version < abi::kMinMinorVersion) {
    return absl::FailedPreconditionError(fmt::format("plug-in {} has PJRT C API {}.{}; {}.{} or a later {}.x is needed",
                                                     path, version.major_version, version.minor_version,
                                                     abi::kMajorVersion, abi::kMinMinorVersion, abi::kMajorVersion));
  }
  return api;
}

// A device of an asynchronous CPU client that waits in a collective of ours holds a thread of its pool, which has one
// for each core or device, whichever is more. Copies run in that pool too, and a peer may be waiting for one of them:
// so there must be threads beyond the devices (with as many as devices, a copy waits for ever). The pool's size is
// read from the environment when a client is made; what the user has set there is only raised.
void SizeCpuPool(const NamedValues& options) REQUIRES(g_mutex) {
  const auto asynchronous = options.find("asynchronous");
  if (asynchronous != options.end() && asynchronous->second == Value(false)) return;
  const auto found = options.find("cpu_device_count");
  if (found == options.end() || !std::holds_alternative<int64_t>(found->second)) return;
  const int64_t needed = std::get<int64_t>(found->second) + 2;
  const char* text = getenv("PJRT_NPROC");
  const int64_t set = text == nullptr ? 0 : atoll(text);
  if (set >= needed) return;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t threads = text == nullptr ? std::max(cores, needed) : needed;
  if (text != nullptr) LogDebug("PJRT_NPROC raised from {} to {}", text, threads);
  setenv("PJRT_NPROC", std::to_string(threads).c_str(), 1);
}

struct TransformRegistration {
  abi::PJRT_XlaTransform_Callbacks callbacks;  // first: the plug-in gives back its address
  Transform transform;
};

// Bytes that the plug-in reads after the callback returned.
void DeleteReply(void* data) { delete static_cast<std::string*>(data); }

void RunTransform(abi::PJRT_XlaTransform_Callbacks* callbacks, abi::PJRT_XlaTransform_Args* args) {
  auto* registration = reinterpret_cast<TransformRegistration*>(callbacks);
  auto result = registration->transform(std::string_view(args->hlo_module.data, args->hlo_module.size));
  args->changed = false;
  args->header.has_error = !result.ok();
  if (result.ok() && !result->has_value()) return;
  auto reply =
      std::make_unique<std::string>(result.ok() ? std::move(**result) : std::string(result.status().message()));
  if (result.ok()) {
    args->changed = true;
    args->transformed_hlo_module = {reply->data(), reply->size()};
  } else {
    args->header.code = static_cast<int>(result.status().code());
    args->header.error_msg = {reply->data(), reply->size()};
  }
  args->header.data = reply.release();
  args->header.cleanup_fn = &DeleteReply;
}

}  // namespace

absl::StatusOr<Plugin*> Plugin::Load(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) {
    return absl::NotFoundError(fmt::format("plug-in {} can't be found: {}", path, error.message()));
  }
  MutexLock lock(g_mutex);
  // XLA writes information to stderr; warnings and errors are enough, unless the user asked for more.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);
  if (auto found = LoadedPlugins().find(file.string()); found != LoadedPlugins().end()) return found->second;
  ASSIGN_OR_RETURN(const abi::PJRT_Api* api, OpenLibrary(file.string()));
  std::unique_ptr<Plugin> plugin(new Plugin(file.string(), api));
  RETURN_IF_ERROR(plugin->Initialize());
  LogDebug("plug-in {} loaded, PJRT C API {}.{}", plugin->path_, plugin->api_major_, plugin->api_minor_);
  // Never destroyed: see the header.
  return LoadedPlugins().emplace(file.string(), plugin.release()).first->second;
}

Plugin::Plugin(std::string path, const abi::PJRT_Api* api)
    : path_(std::move(path)),
      api_(api),
      api_major_(api->pjrt_api_version.major_version),
      api_minor_(api->pjrt_api_version.minor_version) {}

absl::Status Plugin::Initialize() {
  auto initialize = MakeArgs<abi::PJRT_Plugin_Initialize_Args>();
  absl::Status status = Call(api_, api_->PJRT_Plugin_Initialize, initialize);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        fmt::format("plug-in {} can't be initialised: {}", path_, std::string(status.message())));
  }
  auto attributes = MakeArgs<abi::PJRT_Plugin_Attributes_Args>();
  RETURN_IF_ERROR(Call(api_, api_->PJRT_Plugin_Attributes, attributes));
  attributes_ = ReadNamedValues(attributes.attributes, attributes.num_attributes);
  return absl::OkStatus();
}

const abi::PJRT_Extension_Base* Plugin::FindExtension(int type) const {
  for (const abi::PJRT_Extension_Base* e = api_->extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return e;
  }
  return nullptr;
}

bool Plugin::has_ffi() const {
  const auto* extension = FindExtension(abi::PJRT_Extension_Type_FFI);
  return extension != nullptr && extension->struct_size >= sizeof(abi::PJRT_FFI_Extension);
}

bool Plugin::has_transform() const {
  const auto* extension = FindExtension(abi::PJRT_Extension_Type_XlaTransform);
  return extension != nullptr && extension->struct_size >= sizeof(abi::PJRT_Xla_Transform_Extension);
}

absl::StatusOr<std::shared_ptr<Client>> Plugin::CreateClient(const NamedValues& options,
                                                             std::shared_ptr<KeyValueStore> store) {
  {
    MutexLock lock(g_mutex);
    SizeCpuPool(options);
  }
  return Client::Create(*this, options, std::move(store));
}

absl::StatusOr<int64_t> Plugin::RegisterFfiType(const std::string& name) {
  if (!has_ffi()) return absl::UnimplementedError(fmt::format("plug-in {} has no FFI extension", path_));
  const auto* ffi = reinterpret_cast<const abi::PJRT_FFI_Extension*>(FindExtension(abi::PJRT_Extension_Type_FFI));
  MutexLock lock(g_mutex);
  const auto key = std::make_pair(api_, name);
  if (auto found = FfiTypes().find(key); found != FfiTypes().end()) return found->second;
  abi::PJRT_FFI_Type_Info info = {};  // no deleter: the data stays ours
  auto args = MakeArgs<abi::PJRT_FFI_Type_Register_Args>();
  args.type_name = name.data();
  args.type_name_size = name.size();
  args.type_info = &info;
  RETURN_IF_ERROR(Call(api_, ffi->type_register, args));
  FfiTypes().emplace(key, args.type_id);
  return args.type_id;
}

absl::Status Plugin::RegisterFfiHandler(const std::string& target, const std::string& platform, void* handler,
                                        bool command_buffer_compatible) {
  if (!has_ffi()) return absl::UnimplementedError(fmt::format("plug-in {} has no FFI extension", path_));
  const auto* ffi = reinterpret_cast<const abi::PJRT_FFI_Extension*>(FindExtension(abi::PJRT_Extension_Type_FFI));
  auto args = MakeArgs<abi::PJRT_FFI_Register_Handler_Args>();
  args.target_name = target.data();
  args.target_name_size = target.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  args.traits = command_buffer_compatible ? 1 : 0;
  return Call(api_, ffi->register_handler, args);
}

absl::Status Plugin::RegisterTransform(const std::string& name, TransformStage stage, Transform transform) {
  if (!has_transform()) {
    return absl::UnimplementedError(fmt::format("plug-in {} has no XlaTransform extension", path_));
  }
  const auto* extension =
      reinterpret_cast<const abi::PJRT_Xla_Transform_Extension*>(FindExtension(abi::PJRT_Extension_Type_XlaTransform));
  auto registration = std::make_unique<TransformRegistration>();
  registration->callbacks.version = abi::kXlaTransformVersion;
  registration->callbacks.transform_hlo_module = &RunTransform;
  registration->transform = std::move(transform);
  auto args = MakeArgs<abi::PJRT_Register_Xla_Transform_Args>();
  args.name = name.data();
  args.name_size = name.size();
  args.stage = static_cast<int>(stage);
  args.callbacks = &registration->callbacks;
  RETURN_IF_ERROR(Call(api_, extension->register_xla_transform, args));
  registration.release();  // the plug-in keeps it for the rest of the process
  return absl::OkStatus();
}

}  // namespace switchtower::pjrt
