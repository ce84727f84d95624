// A proxy: the door for clients and the controller of their sessions.
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/file_limit.h"
#include "base/log.h"
#include "base/net/event_loop.h"
#include "base/net/host_port.h"
#include "base/status_macros.h"
#include "cli/advertised_host.h"
#include "cli/cluster_summary.h"
#include "cli/device_type_probe.h"
#include "cli/flags.h"
#include "cli/locations.h"
#include "compiler/caching_compile_service.h"
#include "compiler/compiler_client.h"
#include "compiler/program_cache.h"
#include "compiler/program_key.h"
#include "controller/api/trace.h"
#include "controller/cluster/socket_worker_channel.h"
#include "controller/sessions/controller_impl.h"
#include "frontdoor/front_door.h"
#include "frontdoor/relay_table.h"
#include "inspect/introspection_service.h"
#include "resource_manager/cluster_table.h"
#include "resource_manager/resource_manager_client.h"
#include "wire/ifrt/versions.h"

namespace switchtower {
namespace {

struct Flags {
  std::string manager;
  std::string bind = "127.0.0.1";
  std::string advertise_host;
  int port = 29000;
  std::string pjrt_plugin;
  std::string virtual_slices;
  std::string platform_name;
  std::string cache_dir = "default";
  std::string shared_upload_dir;
  int protocol_max = kProtocolMax;
  int64_t device_memory = 0;
  DispatchFlags dispatch;
  int connect_timeout_s = 600;
  int compile_timeout_s = 1800;
  bool stats = false;
  bool no_introspection = false;
  LogFlags log;
};

absl::StatusOr<std::unique_ptr<CompileService>> MakeCompiler(const Flags& flags) {
  std::unique_ptr<ProgramCache> cache;
  ProgramCache::Options cache_options;
  cache_options.folder = flags.cache_dir == "default" ? ProgramCache::DefaultFolder() : flags.cache_dir;
  if (flags.cache_dir != "none" && !cache_options.folder.empty()) {
    ASSIGN_OR_RETURN(cache, ProgramCache::Open(cache_options));
  }
  CompilerClient::Options client_options;
  client_options.command = {BinaryPath(), "compiler", "--pjrt-plugin", flags.pjrt_plugin};
  client_options.timeout = std::chrono::seconds(flags.compile_timeout_s);
  auto client = std::make_unique<CompilerClient>(std::move(client_options));
  client->Warm();
  CachingCompileService::Options options;
  ASSIGN_OR_RETURN(options.compiler_version, PluginVersion(flags.pjrt_plugin));
  return std::make_unique<CachingCompileService>(std::move(options), std::move(client), std::move(cache));
}

// The resource manager takes a proxy that stood still for dead and gives its slices to others; one that was restarted
// knows of no leases. Either way the sessions here are over, and the proxy goes on without them.
void EndSessions(const absl::Status& lost, ControllerImpl& controller, FrontDoor& door) {
  const absl::Status why = absl::UnavailableError(
      fmt::format("this session has lost its slices, and its arrays with them: {}; start the program again",
                  std::string(lost.message())));
  std::promise<void> told;
  controller.LoseLeases(why, [&] {
    door.EndSessions(why);
    told.set_value();
  });
  told.get_future().wait();
}

// Where other proxies bring sessions to.
std::string DoorAddress(const Flags& flags, int port) {
  const std::string advertised = AdvertisedHost(flags.bind, flags.advertise_host);
  return HostPort(advertised.empty() ? flags.bind : advertised, port);
}

// Threads for the connections to workers: one does for some hundred of them (docs/measurements/scale.md).
absl::StatusOr<std::vector<std::unique_ptr<EventLoop>>> WorkerLoops() {
  std::vector<std::unique_ptr<EventLoop>> loops;
  const unsigned count = std::clamp(std::thread::hardware_concurrency() / 4, 1u, 8u);
  for (unsigned i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create("workers"));
    loops.push_back(std::move(loop));
  }
  return loops;
}

absl::Status Serve(Flags flags) {
  if (flags.pjrt_plugin.empty()) {
    ASSIGN_OR_RETURN(flags.pjrt_plugin, DefaultPjrtPlugin());
  }
  RETURN_IF_ERROR(ParseSliceTypes(flags.virtual_slices).status());
  ASSIGN_OR_RETURN(const DeviceType device_type, ProbeDeviceTypeInChild(flags.pjrt_plugin));
  ASSIGN_OR_RETURN(std::unique_ptr<CompileService> compiler, MakeCompiler(flags));
  ASSIGN_OR_RETURN(auto manager,
                   ResourceManagerClient::Connect(flags.manager, std::chrono::seconds(flags.connect_timeout_s)));
  ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> timers, EventLoop::Create("timers"));
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<EventLoop>> sockets, WorkerLoops());
  SocketConnector::Options connector_options;
  for (const auto& loop : sockets) connector_options.loops.push_back(loop.get());
  connector_options.cluster_id = [&manager] { return manager->cluster_id(); };
  connector_options.controller = fmt::format("proxy pid {}", getpid());
  SocketConnector connector(std::move(connector_options));
  ThreadPool pool("controller", 4);
  TraceRecorder trace;

  ControllerImpl::Options options;
  options.pool = &pool;
  options.resource_manager = manager.get();
  options.compiler = compiler.get();
  options.connector = &connector;
  options.name = fmt::format("proxy at port {}", flags.port);
  options.virtual_slices = flags.virtual_slices;
  options.platform_name = flags.platform_name;
  options.platform_version = fmt::format("switchtower {}", SWITCHTOWER_VERSION);
  options.device_memory = flags.device_memory;
  options.launches_ahead = flags.dispatch.launches_ahead;
  options.policy = flags.dispatch.policy;
  options.trace = &trace;
  options.device_types = {device_type};
  options.run_after = [loop = timers.get()](std::chrono::milliseconds delay, Task task) {
    // Timers are set on the loop's own thread only.
    loop->Post([loop, delay, task = std::move(task)]() mutable { loop->RunAfter(delay, std::move(task)); });
  };
  ControllerImpl controller(std::move(options));

  RelayTable relays;
  IntrospectionService::Options introspection;
  introspection.controller = &controller;
  introspection.trace = &trace;
  introspection.slices = [&manager] { return manager->Slices(); };
  introspection.homes = [&manager] { return manager->Homes(); };
  introspection.relayed = [&relays] { return relays.List(); };
  introspection.version = SWITCHTOWER_VERSION;
  IntrospectionService introspection_service(std::move(introspection));
  FrontDoorOptions door_options;
  door_options.host = flags.bind;
  door_options.port = flags.port;
  door_options.shared_upload_dir = flags.shared_upload_dir;
  door_options.protocol_max = flags.protocol_max;
  door_options.launches_in_flight_max =
      std::max(door_options.launches_in_flight_max, static_cast<size_t>(flags.dispatch.launches_ahead));
  door_options.trace = &trace;
  door_options.relays = &relays;
  if (!flags.no_introspection) door_options.services = {&introspection_service};
  ASSIGN_OR_RETURN(std::unique_ptr<FrontDoor> door, FrontDoor::Start(door_options, controller));
  manager->AnnounceDoor(DoorAddress(flags, door->port()));
  manager->WatchLosses([&](const absl::Status& status) { EndSessions(status, controller, *door); });
  fmt::print("switchtower proxy ready: grpc://{}\n", LocalAddress(flags.bind, door->port()));
  std::fflush(stdout);

  WaitForStopSignal();
  if (flags.stats) fmt::print(stderr, "{}", SummaryOf(controller));
  manager->WatchLosses(nullptr);
  door->Stop();
  return absl::OkStatus();
}

}  // namespace

void AddProxy(CLI::App& app, RoleMain& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* role = app.add_subcommand("proxy", "where JAX clients connect; plans and orders what the workers do");
  AddFlag(role, "resource_manager_address", flags->manager,
          "HOST:PORT of the resource manager; tried again until it answers")
      ->required();
  AddFlag(role, "server_port", flags->port, "where clients connect; 0 picks a free port")->check(CLI::Range(0, 65535));
  AddBind(role, flags->bind);
  AddFlag(role, "advertise-host", flags->advertise_host, kAdvertiseHostHelp);
  AddFlag(role, "pjrt-plugin", flags->pjrt_plugin,
          "PJRT plug-in (.so) that compiles, the workers' own; default: the CPU plug-in");
  AddFlag(
      role, "virtual_slices", flags->virtual_slices,
      "slices that this proxy gets for its own: TYPE:TOPOLOGY,... as in cpu:2x2,cpu:2x2; empty: all that nobody holds");
  AddFlag(role, "platform-name", flags->platform_name, "the platform that clients see; default: the engine's");
  AddFlag(role, "compile-cache-dir", flags->cache_dir,
          "folder of compiled programs, private to this user; `default` is below the user's cache folder, `none` keeps "
          "nothing");
  AddFlag(role, "compile-timeout", flags->compile_timeout_s, "seconds after which a compile is given up")
      ->check(CLI::Range(1, 1000000));
  AddFlag(role, "shared-upload-dir", flags->shared_upload_dir, kSharedUploadDirHelp);
  AddFlag(role, "protocol-max", flags->protocol_max, kProtocolMaxHelp)->check(CLI::Range(kProtocolMin, kProtocolMax));
  AddFlag(role, "device-memory", flags->device_memory,
          "bytes that arrays and programs may use on a device; 0: unlimited")
      ->check(CLI::NonNegativeNumber);
  flags->dispatch.AddTo(role);
  AddFlag(role, "connect-timeout", flags->connect_timeout_s, "seconds to keep trying the resource manager")
      ->check(CLI::Range(1, 1000000));
  role->add_flag("--no-introspection", flags->no_introspection,
                 "don't answer status, top, why and trace, which tell every client of all sessions");
  role->add_flag("--stats", flags->stats, "at the end, print how many launches and bytes went where");
  flags->log.AddTo(role);
  role->callback([flags, &run] {
    run = [flags] {
      BlockStopSignals();
      absl::Status status = flags->log.Init("proxy");
      RaiseFileLimit();
      if (status.ok()) status = Serve(*flags);
      return status.ok() ? 0 : Fail(status);
    };
  });
}

}  // namespace switchtower
