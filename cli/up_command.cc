#include "cli/up_command.h"

#include <cstdio>

#include <fmt/format.h>

namespace switchtower {
namespace {

void Say(const std::string& line) { fmt::print(stderr, "switchtower: {}\n", line); }

absl::StatusOr<std::unique_ptr<LocalCluster>> StartOrSay(const LocalClusterOptions& options) {
  Supervisor::BlockSignals();
  auto cluster = LocalCluster::Start(options);
  if (!cluster.ok()) Say(std::string(cluster.status().message()));
  return cluster;
}

}  // namespace

int UpCommand(const LocalClusterOptions& options) {
  auto cluster = StartOrSay(options);
  if (!cluster.ok()) return absl::IsCancelled(cluster.status()) ? 130 : 1;
  for (const auto& [name, value] : ClientEnvironment((*cluster)->address())) {
    if (name != "no_proxy") fmt::print(stderr, "export {}={}\n", name, value);
  }
  fmt::print("switchtower ready: {}\n", (*cluster)->address());
  std::fflush(stdout);
  return (*cluster)->supervisor().Run(-1, Say);
}

int RunCommand(const LocalClusterOptions& options, const std::vector<std::string>& command) {
  auto cluster = StartOrSay(options);
  if (!cluster.ok()) return absl::IsCancelled(cluster.status()) ? 130 : 1;
  ChildOptions child;
  child.argv = command;
  child.environment = ClientEnvironment((*cluster)->address());
  child.own_group = false;  // the terminal's Ctrl-C and input are the command's
  const auto process = Spawn(child);
  if (!process.ok()) {
    Say(std::string(process.status().message()));
    return 127;
  }
  return (*cluster)->supervisor().Run(process->pid, Say);
}

}  // namespace switchtower
