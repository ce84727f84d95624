#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/status_macros.h"
#include "resource_manager/cluster_proto.h"
#include "resource_manager/server_impl.h"

namespace switchtower {

ResourceManagerServer::Impl::WorkerStream::WorkerStream(Impl& server, grpc::CallbackServerContext& context)
    : ServerStream(context), server_(server), peer_(context.peer()) {
  {
    MutexLock lock(server_.mutex_);
    server_.worker_streams_.insert(this);
  }
  BeginReading();
}

void ResourceManagerServer::Impl::WorkerStream::OnDone() {
  {
    MutexLock lock(server_.mutex_);
    server_.worker_streams_.erase(this);
    if (id_) {
      LogInfo("worker {} is gone: {} host {}", peer_, slice_, host_index_);
      server_.workers_.erase(*id_);
      server_.table_.Remove(*id_);
      server_.Publish();
    }
  }
  delete this;
}

void ResourceManagerServer::Impl::WorkerStream::OnMessage(const WorkerReport& report) {
  if (report.has_register_()) Register(report.register_());
}

void ResourceManagerServer::Impl::WorkerStream::Register(const RegisterWorker& request) {
  absl::StatusOr<WorkerInfo> worker = absl::UnknownError("");
  {
    MutexLock lock(server_.mutex_);
    worker = Admit(request);
    if (worker.ok()) {
      id_ = worker->id;
      slice_ = worker->slice;
      host_index_ = worker->host_index;
      server_.workers_[worker->id] = this;
      WorkerOrder order;
      WorkerAccepted* accepted = order.mutable_accepted();
      accepted->set_worker_id(worker->id.value);
      accepted->set_cluster_id(server_.cluster_id_);
      accepted->set_slice(worker->slice);
      accepted->set_slice_number(worker->slice_number);
      accepted->set_host_index(worker->host_index);
      accepted->set_heartbeat_interval_ms(server_.heartbeat_interval_ms());
      Write(std::move(order));
      server_.SendGrants(worker->id);
      server_.Publish();
    }
  }
  if (worker.ok()) {
    LogInfo("worker {} joined: {} host {}, {} devices", peer_, slice_, host_index_, worker->num_devices);
    return;
  }
  LogWarn("worker {} refused: {}", peer_, worker.status().ToString());
  WorkerOrder order;
  Encode(worker.status(), order.mutable_rejected());
  Write(std::move(order));
  End();
}

absl::StatusOr<WorkerInfo> ResourceManagerServer::Impl::WorkerStream::Admit(const RegisterWorker& request) {
  if (id_) return absl::FailedPreconditionError("the worker is registered already");
  if (request.protocol_version() != kResourceManagerProtocol) {
    return absl::FailedPreconditionError(
        fmt::format("the worker speaks protocol {}, this resource manager {}: install one version of switchtower on "
                    "all machines",
                    request.protocol_version(), kResourceManagerProtocol));
  }
  Registration registration;
  ASSIGN_OR_RETURN(registration.worker, Decode(request.worker()));
  registration.slice = request.slice();
  registration.host_index = request.host_index();
  return server_.table_.Register(registration);
}

}  // namespace switchtower
