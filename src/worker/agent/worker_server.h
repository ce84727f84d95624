// Where controllers connect to a worker: listens, hears hellos, lets the right one in.
//
//   accept --> hello --LeaseFence--> admitted --> Worker::Attach(SocketPort); the older connection is closed
//                          \--> waits for its lease (lease_grace) --> refused
//
// Place:    worker/agent. Independent of the resource manager's client: whoever registers the worker passes on what
//           that says (identity, leases).
// Threads:  any; its state lives on an event loop of its own.
// Lifetime: the Worker given to Serve outlives Stop. Stop closes all connections; the destructor calls it.
// Errors:   Create fails with a sentence if an address can't be listened on. A stranger's bytes end its own connection.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/net/address.h"
#include "base/net/event_loop.h"
#include "types/device.h"
#include "worker/agent/lease_fence.h"

namespace switchtower {

class Worker;

struct WorkerServerOptions {
  // Best first. Unix sockets serve controllers of this host only.
  std::vector<std::string> listen = {"tcp:127.0.0.1:0"};
  // What controllers on other hosts shall dial where it differs from the address listened on ("0.0.0.0").
  std::string advertise_host;
  DeviceType device_type;
  int32_t num_devices = 0;
  std::chrono::milliseconds hello_timeout{10'000};
  // How long a hello waits for the news of its lease, and for this worker's own registration.
  std::chrono::milliseconds lease_grace{5'000};
  // Of Worker's PublishStats and CheckLeftovers. Zero: only when asked.
  std::chrono::milliseconds check_period{1'000};
};

class WorkerServer {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Create(WorkerServerOptions options);
  ~WorkerServer();
  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;

  // To register with the resource manager.
  const std::vector<std::string>& command_addresses() const { return addresses_; }

  // Controllers are heard from here on.
  void Serve(Worker& worker);
  void SetIdentity(WorkerId worker, std::string cluster_id);
  // Replaces the list. A connection whose lease is no longer in it is closed.
  void SetAllowedLeases(std::vector<AllowedLease> leases);
  void Stop();

 private:
  class Connection;

  WorkerServer(WorkerServerOptions options, std::unique_ptr<EventLoop> loop);
  absl::Status ListenOn(const std::string& address);

  // Loop's thread.
  void Accept(UniqueFd socket);
  void JudgeAll();
  void Admit(const std::shared_ptr<Connection>& connection);
  void Forget(Connection* connection);
  void Tick();

  const WorkerServerOptions options_;
  std::vector<std::string> addresses_;
  const std::unique_ptr<EventLoop> loop_;
  // Loop's thread, all below.
  std::vector<std::unique_ptr<Listener>> listeners_;
  LeaseFence fence_;
  Worker* worker_ = nullptr;
  absl::flat_hash_set<std::shared_ptr<Connection>> connections_;
  std::shared_ptr<Connection> current_;
  bool stopped_ = false;
};

}  // namespace switchtower
