// What the resource manager's streams share: the table under its mutex, and who is connected.
//
//   worker <--> WorkerStream --+-- Impl: ClusterTable, streams by worker and by lease
//   proxy  <--> ProxyStream ---'        what changed goes to them by Publish and SendGrants
//
// Place:    resource_manager, private to ResourceManagerServer.
// Threads:  gRPC's callback threads and the one that watches heartbeats; all state under one mutex.
// Lifetime: gRPC owns the streams: each deletes itself in OnDone, and Impl's server waits for them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "resource_manager/cluster_table.h"
#include "resource_manager/resource_manager_server.h"
#include "resource_manager/server_stream.h"
#include "switchtower/resource_manager_service.grpc.pb.h"

namespace switchtower {

class ResourceManagerServer::Impl : public ResourceManagerService::CallbackService {
 public:
  explicit Impl(const ResourceManagerOptions& options);

  absl::Status Start();
  void Stop();
  int port() const { return port_; }

  grpc::ServerBidiReactor<WorkerReport, WorkerOrder>* Worker(grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<ProxyCall, ProxyReply>* Proxy(grpc::CallbackServerContext* context) override;

 private:
  class WorkerStream;
  class ProxyStream;

  int heartbeat_interval_ms() const;
  void WatchHeartbeats();
  // Tells holders and workers about what changed.
  void Publish() REQUIRES(mutex_);
  void SendGrants(WorkerId worker) REQUIRES(mutex_);
  // To all workers of a lease that was granted or released.
  void SendGrants(const LeaseState& lease) REQUIRES(mutex_);

  const ResourceManagerOptions options_;
  const std::string cluster_id_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::thread watcher_;

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  ClusterTable table_ GUARDED_BY(mutex_);
  std::map<WorkerId, WorkerStream*> workers_ GUARDED_BY(mutex_);
  std::map<LeaseId, ProxyStream*> holders_ GUARDED_BY(mutex_);
  std::set<WorkerStream*> worker_streams_ GUARDED_BY(mutex_);
  std::set<ProxyStream*> proxy_streams_ GUARDED_BY(mutex_);
};

class ResourceManagerServer::Impl::WorkerStream : public ServerStream<WorkerReport, WorkerOrder> {
 public:
  WorkerStream(Impl& server, grpc::CallbackServerContext& context);
  void OnDone() override;

 private:
  void OnMessage(const WorkerReport& report) override;
  void Register(const RegisterWorker& request);
  absl::StatusOr<WorkerInfo> Admit(const RegisterWorker& request) REQUIRES(server_.mutex_);

  Impl& server_;
  const std::string peer_;
  std::optional<WorkerId> id_;
  std::string slice_;
  int host_index_ = 0;
};

class ResourceManagerServer::Impl::ProxyStream : public ServerStream<ProxyCall, ProxyReply> {
 public:
  ProxyStream(Impl& server, grpc::CallbackServerContext& context);
  void OnDone() override;
  // By which other proxies reach it.
  const std::string& door() const REQUIRES(server_.mutex_) { return door_; }

 private:
  void OnMessage(const ProxyCall& call) override;
  void Reject(const absl::Status& why);
  void Hello(const ProxyHello& hello);
  void Acquire(const AcquireLease& request);
  void ListSlices(uint64_t request_id);
  void Release(LeaseId lease) REQUIRES(server_.mutex_);

  Impl& server_;
  const std::string peer_;
  bool greeted_ = false;  // OnMessage alone
  std::set<LeaseId> leases_ GUARDED_BY(server_.mutex_);
  std::string door_ GUARDED_BY(server_.mutex_);
};

}  // namespace switchtower
