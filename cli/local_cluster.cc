#include "cli/local_cluster.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "cli/core_share.h"
#include "cli/locations.h"

namespace switchtower {
namespace {

constexpr std::chrono::seconds kStartTimeout(120);

SupervisedProcess Role(const LocalClusterOptions& options, const std::string& role, const std::string& name,
                       std::vector<std::string> flags) {
  SupervisedProcess process;
  process.name = name;
  process.options.argv = {BinaryPath(), role};
  for (std::string& flag : flags) process.options.argv.push_back(std::move(flag));
  process.options.argv.push_back("--log-level=" + options.log_level);
  if (!options.log_dir.empty()) {
    std::string file = name;
    for (char& c : file) {
      if (c == ' ' || c == '/') c = '-';
    }
    process.options.argv.push_back(fmt::format("--log-file={}/{}.log", options.log_dir, file));
  }
  process.ready_prefix = fmt::format("switchtower {} ready: ", role);
  return process;
}

std::string WorkerName(int slice, int host) { return fmt::format("worker slice{}/{}", slice, host); }

// XLA's CPU client has a pool of a thread for each core of the machine: threads beyond a worker's share cost switches
// and XLA's busy waiting. What the user has set stays.
void GiveCores(int worker, int workers, ChildOptions& options) {
  CoreShare share = ShareOfCores(UsableCores(), worker, workers);
  options.cores = std::move(share.cores);
  if (std::getenv("PJRT_NPROC") != nullptr || std::getenv("NPROC") != nullptr) return;
  options.environment["PJRT_NPROC"] = std::to_string(share.threads);
}

std::string Prepend(const char* variable, const std::string& value) {
  const char* present = std::getenv(variable);
  return present == nullptr || *present == '\0' ? value
                                                : value + (strcmp(variable, "PYTHONPATH") == 0 ? ":" : ",") + present;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(LocalClusterOptions options) {
  if (options.pjrt_plugin.empty()) {
    ASSIGN_OR_RETURN(options.pjrt_plugin, DefaultPjrtPlugin());
  }
  if (!options.log_dir.empty() && mkdir(options.log_dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::InvalidArgumentError(fmt::format("can't make --log-dir {}: {}", options.log_dir, strerror(errno)));
  }
  auto cluster = std::make_unique<LocalCluster>();
  RETURN_IF_ERROR(cluster->StartProcesses(options));
  return cluster;
}

absl::Status LocalCluster::StartProcesses(const LocalClusterOptions& options) {
  SupervisedProcess manager = Role(options, "resource-manager", "resource-manager",
                                   {"--server_port=0", fmt::format("--instance_count={}", options.slices),
                                    fmt::format("--instance_type=any:{}x{}", options.hosts, options.devices)});
  manager.restart = false;
  RETURN_IF_ERROR(supervisor_.Start(std::move(manager)));
  ASSIGN_OR_RETURN(const std::string manager_address, supervisor_.WaitReady("resource-manager", kStartTimeout));

  for (int slice = 0; slice < options.slices; ++slice) {
    for (int host = 0; host < options.hosts; ++host) {
      std::vector<std::string> flags{"--resource_manager_address=" + manager_address,
                                     "--pjrt-plugin=" + options.pjrt_plugin,
                                     fmt::format("--devices={}", options.devices),
                                     fmt::format("--slice=slice{}", slice), fmt::format("--host-index={}", host)};
      flags.insert(flags.end(), options.worker_flags.begin(), options.worker_flags.end());
      SupervisedProcess worker = Role(options, "worker", WorkerName(slice, host), std::move(flags));
      if (options.share_cores) GiveCores(slice * options.hosts + host, options.slices * options.hosts, worker.options);
      RETURN_IF_ERROR(supervisor_.Start(std::move(worker)));
    }
  }
  const std::string port_flag = fmt::format("--server_port={}", options.port);
  std::vector<std::string> flags{"--resource_manager_address=" + manager_address,
                                 "--pjrt-plugin=" + options.pjrt_plugin, port_flag};
  flags.insert(flags.end(), options.proxy_flags.begin(), options.proxy_flags.end());
  RETURN_IF_ERROR(supervisor_.Start(Role(options, "proxy", "proxy", std::move(flags))));
  ASSIGN_OR_RETURN(address_, supervisor_.WaitReady("proxy", kStartTimeout));
  // A proxy that is restarted must come back where the clients look for it.
  supervisor_.ReplaceArgument("proxy", port_flag, "--server_port=" + address_.substr(address_.rfind(':') + 1));
  for (int slice = 0; slice < options.slices; ++slice) {
    for (int host = 0; host < options.hosts; ++host) {
      RETURN_IF_ERROR(supervisor_.WaitReady(WorkerName(slice, host), kStartTimeout).status());
    }
  }
  return absl::OkStatus();
}

std::map<std::string, std::string> ClientEnvironment(const std::string& address) {
  std::map<std::string, std::string> environment{
      {"JAX_PLATFORMS", "proxy"},
      {"JAX_BACKEND_TARGET", address},
      {"IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS", "true"},
  };
  const std::string python = PythonPath();
  if (!python.empty()) environment["PYTHONPATH"] = Prepend("PYTHONPATH", python);
  // gRPC would send even a loopback connection through an HTTP proxy that the environment names.
  if (std::getenv("http_proxy") != nullptr || std::getenv("https_proxy") != nullptr) {
    environment["no_proxy"] = Prepend("no_proxy", "127.0.0.1,localhost");
  }
  return environment;
}

}  // namespace switchtower
