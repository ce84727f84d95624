// A worker: engine, collectives, data plane and command intake, registered with the resource manager.
#include <unistd.h>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/net/address.h"
#include "base/status_macros.h"
#include "cli/advertised_host.h"
#include "cli/flags.h"
#include "cli/locations.h"
#include "resource_manager/resource_manager_client.h"
#include "resource_manager/worker_registration.h"
#include "transport/host_id.h"
#include "transport/socket_fabric.h"
#include "worker/agent/worker.h"
#include "worker/agent/worker_server.h"
#include "worker/callback/host_callback_handler.h"
#include "worker/collective/exchange_engine.h"
#include "worker/collective/ffi_handlers.h"
#include "worker/engine/pjrt_engine.h"
#include "worker/exec/peer_router.h"
#include "worker/linalg/native_handlers.h"

namespace switchtower {
namespace {

struct Flags {
  std::string manager;
  std::string bind = "127.0.0.1";
  std::string advertise_host;
  int port = 0;
  std::string pjrt_plugin;
  int devices = 1;
  std::string slice;
  int host_index = -1;
  std::string transport = "auto";
  int connect_timeout_s = 600;
  int cancel_grace_s = kCancelGraceDefaultS;
  std::vector<std::string> fault_points;
  LogFlags log;
};

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const Flags& flags) {
  EngineOptions options;
  options.plugin_path = flags.pjrt_plugin;
  options.device_count = flags.devices;
  if (options.plugin_path.empty()) {
    ASSIGN_OR_RETURN(options.plugin_path, DefaultPjrtPlugin());
  }
  return CreatePjrtEngine(options);
}

absl::StatusOr<std::unique_ptr<SocketFabric>> MakeFabric(const Flags& flags, const std::string& cluster_id) {
  SocketFabricOptions options;
  ASSIGN_OR_RETURN(options.mode, ParseFabricMode(flags.transport));
  options.listen = Address::Tcp(flags.bind, 0).ToString();
  options.advertise_host = flags.advertise_host;
  options.cluster_id = cluster_id;
  options.build = SWITCHTOWER_VERSION;
  return SocketFabric::Create(options);
}

absl::StatusOr<std::unique_ptr<WorkerServer>> MakeServer(const Flags& flags, const Engine& engine) {
  WorkerServerOptions options;
  options.listen = {Address::UniqueAbstract("switchtower-commands-").ToString(),
                    Address::Tcp(flags.bind, static_cast<uint16_t>(flags.port)).ToString()};
  options.advertise_host = flags.advertise_host;
  options.device_type = engine.device_type();
  options.num_devices = engine.device_count();
  return WorkerServer::Create(options);
}

absl::Status Serve(Flags flags) {
  for (const std::string& fault : flags.fault_points) {
    RETURN_IF_ERROR(FaultPoint::Arm(fault));
    LogWarn("fault point {} is armed: this worker fails on purpose", fault);
  }
  flags.advertise_host = AdvertisedHost(flags.bind, flags.advertise_host);
  const auto timeout = std::chrono::seconds(flags.connect_timeout_s);
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeEngine(flags));
  std::string cluster_id;
  {
    // Only to learn which cluster this is: addresses must be listened on before the worker can register.
    ASSIGN_OR_RETURN(auto client, ResourceManagerClient::Connect(flags.manager, timeout));
    cluster_id = client->cluster_id();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SocketFabric> fabric, MakeFabric(flags, cluster_id));
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerServer> server, MakeServer(flags, *engine));

  ExchangeEngine::Options collective_options;
  if (engine->capabilities().host_readable) {
    ASSIGN_OR_RETURN(collective_options.user_data_type, RegisterCollectives(*engine));
    RETURN_IF_ERROR(RegisterNativeHandlers(*engine));
    RETURN_IF_ERROR(RegisterHostCallbacks(*engine));
  }
  collective_options.threads = engine->device_count() + 2;
  PeerRouter router(*fabric);
  ExchangeEngine collectives(*fabric, collective_options);
  router.SetHandler(PeerMessageKind::kCollective, &collectives);

  WorkerRegistration::Options registration;
  registration.manager = flags.manager;
  registration.timeout = timeout;
  registration.slice = flags.slice;
  registration.host_index = flags.host_index;
  registration.worker.num_devices = engine->device_count();
  registration.worker.device_type = engine->device_type();
  registration.worker.host_id = LocalHostId();
  registration.worker.command_addresses = server->command_addresses();
  registration.worker.data_addresses = fabric->endpoint().addresses;
  registration.on_identity = [&](const WorkerIdentity& identity) {
    server->SetIdentity(identity.id, identity.cluster_id);
  };
  registration.on_grants = [&](std::vector<LeaseGrant> grants) {
    std::vector<AllowedLease> leases;
    for (LeaseGrant& grant : grants) leases.push_back({std::move(grant.secret), grant.epoch});
    server->SetAllowedLeases(std::move(leases));
  };
  // `up` (or the host's own supervisor) starts a worker anew; without a manager it can't be told apart from a lost one.
  registration.on_lost = [](absl::Status status) {
    LogError("{}; this worker ends", std::string(status.message()));
    RequestStop();
  };
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerRegistration> member, WorkerRegistration::Join(std::move(registration)));
  const WorkerIdentity& identity = member->identity();
  // The fabric would refuse all peers.
  if (identity.cluster_id != cluster_id) {
    return absl::UnavailableError(
        "the resource manager was restarted while this worker joined the cluster: start the worker anew");
  }

  Worker::Parts parts{identity.id, engine.get(), &router, &collectives};
  parts.cancel_grace = std::chrono::seconds(flags.cancel_grace_s);
  parts.on_stuck = [](const absl::Status& status) {
    LogError("{}; this worker ends, so that its devices come back", std::string(status.message()));
    FlushLog();
    _exit(1);
  };
  Worker worker(std::move(parts));
  worker.Start();
  server->Serve(worker);
  LogInfo("{} host {}, {} devices of kind {}", identity.slice, identity.host_index, engine->device_count(),
          engine->device_type().device_kind);
  fmt::print("switchtower worker ready: {} host {}\n", identity.slice, identity.host_index);
  std::fflush(stdout);

  WaitForStopSignal();
  // A program may run for ever and can't be cancelled; what others must see is the end of this process.
  FlushLog();
  _exit(0);
}

}  // namespace

void AddWorker(CLI::App& app, RoleMain& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* role =
      app.add_subcommand("worker", "runs programs on the devices of this host; one on each accelerator host");
  AddFlag(role, "resource_manager_address", flags->manager,
          "HOST:PORT of the resource manager; tried again until it answers")
      ->required();
  AddFlag(role, "devices", flags->devices, "devices to make (CPU) or to use")->check(CLI::Range(1, 1024));
  AddFlag(role, "pjrt-plugin", flags->pjrt_plugin,
          "PJRT plug-in (.so); default: the CPU plug-in that `make build` installs");
  AddFlag(role, "slice", flags->slice, "name of this host's slice; default: the resource manager chooses");
  AddFlag(role, "host-index", flags->host_index, "place in the slice; -1: the resource manager chooses")
      ->check(CLI::Range(-1, 65535));
  AddFlag(role, "server_port", flags->port, "TCP port for commands; 0 picks a free one")->check(CLI::Range(0, 65535));
  AddBind(role, flags->bind);
  AddFlag(role, "advertise-host", flags->advertise_host, kAdvertiseHostHelp);
  AddFlag(role, "transport", flags->transport,
          "between workers: auto (shared memory on one host, else TCP), shm or tcp")
      ->check(CLI::IsMember({"auto", "shm", "tcp"}));
  AddFlag(role, "connect-timeout", flags->connect_timeout_s, "seconds to keep trying the resource manager")
      ->check(CLI::Range(1, 1000000));
  AddCancelGrace(role, flags->cancel_grace_s);
  // For tests: see base/fault_point.h.
  role->add_option("--fault-point", flags->fault_points, "a place that fails on purpose: NAME:KEY=NUMBER,...")
      ->allow_extra_args(false)
      ->group("");
  flags->log.AddTo(role);
  role->callback([flags, &run] {
    run = [flags] {
      BlockStopSignals();
      if (const absl::Status status = flags->log.Init("worker"); !status.ok()) return Fail(status);
      RaiseFileLimit();
      return Fail(Serve(*flags));
    };
  });
}

}  // namespace switchtower
