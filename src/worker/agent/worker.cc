#include "worker/agent/worker.h"

#include <future>
#include <utility>

#include "worker/agent/worker_core.h"

namespace switchtower {
namespace {
constexpr int kIoThreads = 2;      // copies of large shards: memory is the limit
constexpr int kLoaderThreads = 2;  // apart from those, since a load may take a second
// Programs resume on the threads of `resume_`, after a call into the client: one for each device.
}  // namespace

Worker::Worker(Parts parts)
    : parts_(parts),
      intake_(std::make_shared<IntakeQueue>()),
      io_(std::make_shared<WorkQueue>("worker io", kIoThreads)),
      loaders_(std::make_shared<WorkQueue>("program load", kLoaderThreads)),
      resume_(std::make_shared<WorkQueue>("host calls", parts.engine->device_count())),
      core_(std::make_unique<Core>(parts, intake_, io_, resume_, *loaders_)) {}

Worker::~Worker() { Stop(); }

void Worker::Start() { parts_.router->Start(parts_.self); }

void Worker::Attach(std::shared_ptr<ControllerPort> port) {
  intake_->Post([this, port = std::move(port)]() mutable { core_->Attach(std::move(port)); });
}

void Worker::PublishStats() {
  intake_->Post([this] { core_->PublishStats(); });
}

void Worker::CheckLeftovers() {
  intake_->Post([this] { core_->CheckLeftovers(); });
}

void Worker::Stop() {
  if (stopped_.exchange(true)) return;
  std::promise<void> detached;
  intake_->Post([this, &detached] {
    core_->PublishStats();
    core_->Close(absl::UnavailableError("the worker stops"));
    detached.set_value();
  });
  detached.get_future().wait();
  core_->StopDevices();
  parts_.router->Stop();
  loaders_->Stop();
  resume_->Stop();
  io_->Stop();
  intake_->Stop();
}

}  // namespace switchtower
