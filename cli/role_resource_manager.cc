#include <fmt/format.h>

#include "base/file_limit.h"
#include "cli/advertised_host.h"
#include "cli/flags.h"
#include "resource_manager/resource_manager_server.h"

namespace switchtower {
namespace {

struct Flags {
  ResourceManagerOptions options;
  LogFlags log;
};

int Main(const Flags& flags) {
  BlockStopSignals();
  if (const absl::Status status = flags.log.Init("resource-manager"); !status.ok()) return Fail(status);
  RaiseFileLimit();
  auto server = ResourceManagerServer::Start(flags.options);
  if (!server.ok()) return Fail(server.status());
  fmt::print("switchtower resource-manager ready: {}\n", LocalAddress(flags.options.bind, (*server)->port()));
  std::fflush(stdout);
  WaitForStopSignal();
  (*server)->Stop();
  return 0;
}

}  // namespace

void AddResourceManager(CLI::App& app, RoleMain& run) {
  auto flags = std::make_shared<Flags>();
  flags->options.port = 29001;
  CLI::App* role = app.add_subcommand("resource-manager", "membership of workers, slices and leases; one a cluster");
  AddFlag(role, "server_port", flags->options.port, "where workers and proxies connect; 0 picks a free port")
      ->check(CLI::Range(0, 65535));
  AddBind(role, flags->options.bind);
  AddFlag(role, "instance_count", flags->options.cluster.instance_count,
          "slices that will come; 0: learned from workers");
  AddFlag(role, "instance_type", flags->options.cluster.instance_type,
          "type of each slice, PLATFORM:HOSTSxDEVICES, as in cpu:2x4; platform `any` is that of the first worker");
  AddFlag(role, "heartbeat-timeout-ms", flags->options.heartbeat_timeout_ms,
          "a worker or proxy that is silent for this long counts as lost")
      ->check(CLI::Range(100, 3600000));
  flags->log.AddTo(role);
  role->callback([flags, &run] { run = [flags] { return Main(*flags); }; });
}

}  // namespace switchtower
