#include "cli/flags.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/up_command.h"
#include "wire/ifrt/versions.h"

namespace switchtower {

std::string BothSpellings(const std::string& name) {
  std::string dashes = name, underscores = name;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  std::replace(underscores.begin(), underscores.end(), '-', '_');
  return dashes == underscores ? "--" + name : "--" + dashes + ",--" + underscores;
}

void LogFlags::AddTo(CLI::App* app) {
  AddFlag(app, "log-level", level, "what is logged")->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  AddFlag(app, "log-file", file, "log to this file; warnings and errors go to stderr too");
}

absl::Status LogFlags::Init(const std::string& role) const {
  if (!file.empty()) {
    // The logger would end the process with an exception.
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::absolute(file, error).parent_path(), error);
    if (!std::ofstream(file, std::ios::app)) {
      return absl::InvalidArgumentError(fmt::format("can't write to --log-file {}: {}", file, strerror(errno)));
    }
  }
  const std::vector<std::string> names{"trace", "debug", "info", "warn", "error"};
  const auto index = std::find(names.begin(), names.end(), level) - names.begin();
  InitLog(role, static_cast<LogLevel>(index), file);
  return absl::OkStatus();
}

void DispatchFlags::AddTo(CLI::App* app) {
  AddFlag(app, "launches-ahead", launches_ahead,
          "launches that a device has ahead of it at most; a client that runs further ahead is slowed")
      ->check(CLI::Range(2, 1000000));
  AddFlag(app, "policy", policy,
          "which launch goes first where several could: fifo; priority (a session's `priority` in its "
          "initialization_data); share (device time by `weight`); pipeline (what is expected to be ready first)")
      ->check(CLI::IsMember({"fifo", "priority", "share", "pipeline"}));
}

void AddCancelGrace(CLI::App* app, int& seconds) {
  AddFlag(app, "cancel-grace", seconds,
          "seconds that a program may go on after its session's end; then its worker ends and comes back, and what is "
          "on its slice is lost")
      ->check(CLI::Range(0, 1000000));
}

int Fail(const absl::Status& status) {
  fmt::print(stderr, "switchtower: {}\n", std::string(status.message()));
  return 1;
}

void BlockStopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void WaitForStopSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  int signal = 0;
  sigwait(&set, &signal);
}

void RequestStop() { kill(getpid(), SIGTERM); }

namespace {

struct UpFlags {
  LocalClusterOptions cluster;
  std::vector<std::string> command;
  std::string virtual_slices, platform_name, cache_dir = "default", transport = "auto", shared_upload_dir;
  int64_t device_memory = 0;
  DispatchFlags dispatch;
  int cancel_grace_s = kCancelGraceDefaultS;
  std::vector<std::string> fault_points;
  int protocol_max = kProtocolMax;
  bool stats = false;

  void AddTo(CLI::App* app) {
    AddFlag(app, "slices", cluster.slices, "slices: sets of devices with a fast interconnect")
        ->check(CLI::Range(1, 1024));
    AddFlag(app, "hosts", cluster.hosts, "worker processes of a slice")->check(CLI::Range(1, 1024));
    AddFlag(app, "devices", cluster.devices, "devices of a worker")->check(CLI::Range(1, 1024));
    AddFlag(app, "share-cores", cluster.share_cores,
            "each worker runs on its share of this machine's cores, as if it were a host; false: all on all");
    AddFlag(app, "pjrt-plugin", cluster.pjrt_plugin,
            "PJRT plug-in (.so); default: the CPU plug-in that `make build` installs");
    AddFlag(app, "log-dir", cluster.log_dir, "folder for a log of each role");
    AddFlag(app, "log-level", cluster.log_level, "what is logged")
        ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
    AddFlag(app, "virtual_slices", virtual_slices,
            "slices that the proxy gets for its own: TYPE:TOPOLOGY,... as in cpu:2x2,cpu:2x2; empty: all");
    AddFlag(app, "platform-name", platform_name, "the platform that clients see; default: the engine's");
    AddFlag(app, "compile-cache-dir", cache_dir,
            "folder of compiled programs; `default` is below the user's cache folder, `none` keeps nothing");
    AddFlag(app, "transport", transport, "between workers: auto (shared memory on one host, else TCP), shm or tcp")
        ->check(CLI::IsMember({"auto", "shm", "tcp"}));
    AddFlag(app, "device-memory", device_memory, "bytes that arrays and programs may use on a device; 0: unlimited")
        ->check(CLI::NonNegativeNumber);
    AddFlag(app, "shared-upload-dir", shared_upload_dir, kSharedUploadDirHelp);
    dispatch.AddTo(app);
    AddCancelGrace(app, cancel_grace_s);
    app->add_option("--fault-point", fault_points, "of the workers, for tests: NAME:KEY=NUMBER,...")
        ->allow_extra_args(false)
        ->group("");
    AddFlag(app, "protocol-max", protocol_max, kProtocolMaxHelp)->check(CLI::Range(kProtocolMin, kProtocolMax));
    app->add_flag("--stats", stats, "at the end, print how many launches and bytes went where");
  }
  LocalClusterOptions Options() {
    LocalClusterOptions options = cluster;
    if (!virtual_slices.empty()) options.proxy_flags.push_back("--virtual_slices=" + virtual_slices);
    if (!platform_name.empty()) options.proxy_flags.push_back("--platform-name=" + platform_name);
    options.proxy_flags.push_back("--compile-cache-dir=" + cache_dir);
    options.proxy_flags.push_back(fmt::format("--device-memory={}", device_memory));
    options.proxy_flags.push_back(fmt::format("--launches-ahead={}", dispatch.launches_ahead));
    options.proxy_flags.push_back("--policy=" + dispatch.policy);
    options.proxy_flags.push_back(fmt::format("--protocol-max={}", protocol_max));
    if (!shared_upload_dir.empty()) options.proxy_flags.push_back("--shared-upload-dir=" + shared_upload_dir);
    if (stats) options.proxy_flags.push_back("--stats");
    options.worker_flags.push_back("--transport=" + transport);
    options.worker_flags.push_back(fmt::format("--cancel-grace={}", cancel_grace_s));
    for (const std::string& fault : fault_points) options.worker_flags.push_back("--fault-point=" + fault);
    if (options.log_level.empty()) options.log_level = options.log_dir.empty() ? "warn" : "info";
    return options;
  }
};

}  // namespace

void AddUpCommands(CLI::App& app, RoleMain& run) {
  auto flags = std::make_shared<UpFlags>();
  CLI::App* up = app.add_subcommand("up", "run a cluster on this machine until Ctrl-C");
  flags->AddTo(up);
  AddFlag(up, "port", flags->cluster.port, "where clients connect; 0 picks a free port")->check(CLI::Range(0, 65535));
  up->callback([flags, &run] { run = [flags] { return UpCommand(flags->Options()); }; });

  auto run_flags = std::make_shared<UpFlags>();
  run_flags->cluster.port = 0;
  CLI::App* one = app.add_subcommand(
      "run", "run one command with a cluster of its own: switchtower run --hosts 2 -- python train.py");
  run_flags->AddTo(one);
  one->add_option("command", run_flags->command, "the command and its arguments, after --")->required();
  one->positionals_at_end();
  one->callback(
      [run_flags, &run] { run = [run_flags] { return RunCommand(run_flags->Options(), run_flags->command); }; });
}

}  // namespace switchtower
