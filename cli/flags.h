// Command-line flags of the roles. `-` and `_` are the same in a flag's name: the closed product spells its
// flags with `_`.
#pragma once

#include <algorithm>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "cli/local_cluster.h"

namespace switchtower {

// "--server_port,--server-port" for "server_port".
std::string BothSpellings(const std::string& name);

template <typename T>
CLI::Option* AddFlag(CLI::App* app, const std::string& name, T& value, const std::string& help) {
  CLI::Option* option = app->add_option(BothSpellings(name), value, help);
  option->capture_default_str();
  return option;
}

inline constexpr char kSharedUploadDirHelp[] =
    "folder, seen by the proxy and one client under the same path, where the client may leave large uploads "
    "(IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY); empty: none";
inline constexpr char kProtocolMaxHelp[] =
    "highest version of the IFRT proxy protocol to agree on; lower it to work around a fault of a client's newer one";

inline constexpr int kCancelGraceDefaultS = 10;
void AddCancelGrace(CLI::App* app, int& seconds);

// In which order launches go, and how far ahead of the devices.
struct DispatchFlags {
  int launches_ahead = 256;
  std::string policy = "fifo";
  void AddTo(CLI::App* app);
};

struct LogFlags {
  std::string level = "warn";
  std::string file;
  void AddTo(CLI::App* app);
  absl::Status Init(const std::string& role) const;
};

// Each adds a subcommand whose callback stores what to run in `run`.
using RoleMain = std::function<int()>;
void AddUpCommands(CLI::App& app, RoleMain& run);
void AddResourceManager(CLI::App& app, RoleMain& run);
void AddProxy(CLI::App& app, RoleMain& run);
void AddWorker(CLI::App& app, RoleMain& run);
void AddCompiler(CLI::App& app, RoleMain& run);
void AddInspect(CLI::App& app, RoleMain& run);
void AddProbe(CLI::App& app, RoleMain& run);

// For a role's main: says `status` on stderr and gives the exit code.
int Fail(const absl::Status& status);
// Waits for SIGINT or SIGTERM (blocked by BlockStopSignals before any thread started), or for RequestStop.
void BlockStopSignals();
void WaitForStopSignal();
// Makes WaitForStopSignal return; from any thread.
void RequestStop();

}  // namespace switchtower
