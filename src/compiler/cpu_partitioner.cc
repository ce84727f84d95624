#include "compiler/cpu_partitioner.h"

#include <iterator>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {
namespace {

constexpr char kTransformName[] = "switchtower-capture";
constexpr size_t kCachedClients = 4;

// What the transform does for the compile that runs on this thread.
struct Capture {
  // Set for a program of one partition: called on the module, and the compile goes on with the result.
  const ProgramPartitioner::Lower* lower = nullptr;
  absl::Status lower_status;
  // Without `lower`: the module is kept here and the compile ends.
  std::optional<std::string> module;
  bool called = false;
};

thread_local Capture* t_capture = nullptr;

absl::StatusOr<std::optional<std::string>> OnModule(std::string_view module) {
  Capture* capture = t_capture;
  // Not a compile of ours, or its second call: code generation alone passes here too.
  if (capture == nullptr || capture->called) return std::nullopt;
  capture->called = true;
  if (capture->lower == nullptr) {
    capture->module.emplace(module);
    return absl::CancelledError("captured");
  }
  absl::StatusOr<std::optional<std::string>> lowered = (*capture->lower)(module);
  capture->lower_status = lowered.status();
  return lowered;
}

absl::StatusOr<pjrt::LoadedExecutable> CompileCaptured(pjrt::Client& client, Capture& capture, std::string_view module,
                                                       const std::string& options) {
  t_capture = &capture;
  absl::Cleanup reset = [] { t_capture = nullptr; };
  return client.Compile(module, "mlir", options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuPartitioner>> CpuPartitioner::Create(pjrt::Plugin& plugin) {
  RETURN_IF_ERROR(plugin.RegisterTransform(kTransformName, pjrt::TransformStage::kPostScheduler, OnModule));
  return std::unique_ptr<CpuPartitioner>(new CpuPartitioner(plugin));
}

absl::StatusOr<pjrt::LoadedExecutable> CpuPartitioner::Compile(std::string_view module, const ClientOptions& options,
                                                               Lower lower) {
  if (options.num_partitions == 1) return CompileOnePartition(module, options, lower);
  return CompilePartitions(module, options, lower);
}

absl::StatusOr<pjrt::LoadedExecutable> CpuPartitioner::CompileOnePartition(std::string_view module,
                                                                           const ClientOptions& options, Lower lower) {
  ASSIGN_OR_RETURN(std::shared_ptr<pjrt::Client> client, ClientOf(1));
  Capture capture;
  capture.lower = &lower;
  auto executable = CompileCaptured(*client, capture, module, SinglePassOptions(options));
  RETURN_IF_ERROR(capture.lower_status);
  if (executable.ok() && !capture.called) {
    return absl::FailedPreconditionError("the compiler plug-in didn't show the program before generating code");
  }
  return executable;
}

absl::StatusOr<pjrt::LoadedExecutable> CpuPartitioner::CompilePartitions(std::string_view module,
                                                                         const ClientOptions& options, Lower lower) {
  ASSIGN_OR_RETURN(std::shared_ptr<pjrt::Client> partitioning, ClientOf(options.num_partitions));
  Capture capture;
  auto refused = CompileCaptured(*partitioning, capture, module, CaptureOptions(options));
  if (!capture.module.has_value()) {
    if (!refused.ok()) return refused.status();
    return absl::FailedPreconditionError("the compiler plug-in didn't show the program before generating code");
  }
  ASSIGN_OR_RETURN(std::optional<std::string> lowered, lower(*capture.module));
  ASSIGN_OR_RETURN(std::shared_ptr<pjrt::Client> backend, ClientOf(1));
  const std::string& bytes = lowered.has_value() ? *lowered : *capture.module;
  xla::HloModuleProto shapes;
  if (!shapes.ParseFromString(bytes)) return absl::InternalError("the lowered module can't be read");
  return backend->Compile(bytes, "hlo", BackendOptions(options, shapes.host_program_shape()));
}

absl::StatusOr<std::shared_ptr<pjrt::Client>> CpuPartitioner::ClientOf(int32_t devices) {
  MutexLock lock(mutex_);
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    if (it->first != devices) continue;
    clients_.splice(clients_.begin(), clients_, it);
    return it->second;
  }
  pjrt::NamedValues options;
  options["cpu_device_count"] = static_cast<int64_t>(devices);
  ASSIGN_OR_RETURN(std::shared_ptr<pjrt::Client> client, plugin_.CreateClient(options));
  clients_.emplace_front(devices, client);
  // The client of one device generates the code of every program, so it stays.
  while (clients_.size() > kCachedClients) {
    auto last = std::prev(clients_.end());
    if (last->first == 1) last = std::prev(last);
    clients_.erase(last);
  }
  return client;
}

}  // namespace switchtower
