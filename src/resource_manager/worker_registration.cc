#include "resource_manager/worker_registration.h"

#include <future>

#include "base/status_macros.h"
#include "resource_manager/client_stream.h"
#include "resource_manager/cluster_proto.h"

namespace switchtower {

class WorkerRegistration::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<Options> options)
      : stub_(ResourceManagerService::NewStub(channel)), options_(std::move(options)) {}

  absl::Status Join() {
    stream_.Start([this](grpc::ClientContext* context, auto* reactor) { stub_->async()->Worker(context, reactor); },
                  [this](const WorkerOrder& order) { Handle(order); },
                  [this](absl::Status status) { Lost(std::move(status)); });
    WorkerReport report;
    RegisterWorker* request = report.mutable_register_();
    request->set_protocol_version(kResourceManagerProtocol);
    request->set_slice(options_->slice);
    request->set_host_index(options_->host_index);
    Encode(options_->worker, request->mutable_worker());
    stream_.Write(report);
    std::future<absl::Status> joined = joined_.get_future();
    if (joined.wait_for(options_->timeout) != std::future_status::ready) {
      return absl::DeadlineExceededError(fmt::format("the resource manager at {} doesn't answer", options_->manager));
    }
    return joined.get();
  }
  void Stop() { stream_.Stop(); }
  const WorkerIdentity& identity() const { return identity_; }

 private:
  void Handle(const WorkerOrder& order) {
    switch (order.order_case()) {
      case WorkerOrder::kAccepted: {
        if (answered_) return;
        const WorkerAccepted& accepted = order.accepted();
        identity_ = {WorkerId{accepted.worker_id()}, accepted.cluster_id(), accepted.slice(), accepted.slice_number(),
                     accepted.host_index()};
        WorkerReport beat;
        beat.mutable_heartbeat();
        stream_.StartHeartbeat(accepted.heartbeat_interval_ms(), beat);
        if (options_->on_identity) options_->on_identity(identity_);
        accepted_ = true;
        return Answered(absl::OkStatus());
      }
      case WorkerOrder::kRejected:
        return Answered(Decode(order.rejected()));
      case WorkerOrder::kGrants: {
        std::vector<LeaseGrant> grants;
        for (const Grants::Grant& grant : order.grants().grants()) {
          grants.push_back({grant.lease_id(), grant.secret(), grant.epoch()});
        }
        if (options_->on_grants) options_->on_grants(std::move(grants));
        return;
      }
      case WorkerOrder::ORDER_NOT_SET:
        return;
    }
  }
  void Answered(absl::Status status) {
    if (answered_) return;
    answered_ = true;
    joined_.set_value(std::move(status));
  }
  void Lost(absl::Status status) {
    Answered(status);
    if (accepted_ && options_->on_lost) options_->on_lost(status);
  }

  std::unique_ptr<ResourceManagerService::Stub> stub_;
  const std::shared_ptr<Options> options_;  // shared by the attempts to join
  std::promise<absl::Status> joined_;
  bool answered_ = false, accepted_ = false;  // reader thread
  WorkerIdentity identity_;
  ClientStream<WorkerReport, WorkerOrder> stream_;  // last: its threads use the above
};

WorkerRegistration::WorkerRegistration(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerRegistration::~WorkerRegistration() { impl_->Stop(); }
const WorkerIdentity& WorkerRegistration::identity() const { return impl_->identity(); }

absl::StatusOr<std::unique_ptr<WorkerRegistration>> WorkerRegistration::Join(Options options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, DialResourceManager(options.manager, options.timeout));
  auto shared = std::make_shared<Options>(std::move(options));
  while (true) {
    auto impl = std::make_unique<Impl>(channel, shared);
    const absl::Status status = impl->Join();
    if (status.ok()) return std::unique_ptr<WorkerRegistration>(new WorkerRegistration(std::move(impl)));
    impl->Stop();
    // Its old self may count as alive until the manager sees its stream end; a manager may be restarting.
    const bool passes = absl::IsAlreadyExists(status) || absl::IsUnavailable(status);
    if (!passes || std::chrono::steady_clock::now() >= deadline) return status;
    LogWarn("can't join the cluster yet: {}", std::string(status.message()));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // waits for another process
  }
}

}  // namespace switchtower
