#include "controller/sim/sim_worker.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "controller/sim/sim_worker_state.h"

namespace switchtower {

int64_t SimFabric::DurationOf(const std::string& program) {
  auto it = options.durations_ns.find(program);
  auto duration =
      static_cast<double>(it != options.durations_ns.end() ? it->second : 1'000 * (1 + SimNumberOf(program) % 200));
  if (options.duration_jitter > 0) {
    duration *=
        std::uniform_real_distribution<double>(1 - options.duration_jitter, 1 + options.duration_jitter)(random);
  }
  return static_cast<int64_t>(duration);
}

class SimWorker::Channel : public WorkerChannel {
 public:
  explicit Channel(SimWorker& worker) : worker_(&worker) { worker.channel_ = this; }
  ~Channel() override { Close(); }
  void Start(Handlers handlers) override { worker_->handlers_ = std::move(handlers); }
  void Send(std::shared_ptr<const SharedCommand> command, When) override {
    if (worker_ == nullptr) return;
    SimFabric& fabric = worker_->fabric_;
    // A message doesn't overtake another on its way.
    worker_->last_delivery_ns_ = std::max(worker_->last_delivery_ns_, fabric.loop.now_ns() + fabric.Latency());
    fabric.loop.At(worker_->last_delivery_ns_,
                   [worker = worker_, command = std::move(command)] { worker->Take(command->command()); });
  }
  size_t queued_bytes() const override { return 0; }
  void Close() override {
    if (worker_ == nullptr) return;
    worker_->channel_ = nullptr;
    worker_->handlers_ = {};
    worker_ = nullptr;
  }

 private:
  friend class SimWorker;
  SimWorker* worker_;
};

SimWorker::SimWorker(SimFabric& fabric, WorkerId id, int32_t devices) : fabric_(fabric), id_(id) {
  for (int32_t ordinal = 0; ordinal < devices; ++ordinal) {
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->ordinal = ordinal;
  }
  fabric_.workers[id] = this;
}

SimWorker::~SimWorker() {
  if (channel_ != nullptr) channel_->Close();
  fabric_.workers.erase(id_);
}

std::unique_ptr<WorkerChannel> SimWorker::NewChannel() { return std::make_unique<Channel>(*this); }

void SimWorker::Take(const WorkerCommand& command) {
  std::visit([&](const auto& one) { Do(one); }, command);
}

const SimWorker::DeviceUse& SimWorker::use(int32_t ordinal) const { return devices_[ordinal]->use; }

void SimWorker::ResetUse() {
  for (const auto& device : devices_) device->use = DeviceUse{};
}

size_t SimWorker::queued() const {
  size_t queued = 0;
  for (const auto& device : devices_) queued += device->queue.size() + (device->current != nullptr ? 1 : 0);
  return queued;
}

std::string SimWorker::Describe() const {
  std::string text;
  for (const auto& device : devices_) {
    text += fmt::format("worker {} device {}: ", id_.value, device->ordinal);
    if (device->current != nullptr) {
      text +=
          fmt::format("rank {} of launch {} waits for its gang, ", device->current->rank, device->current->launch->id);
    }
    text += fmt::format("{} queued\n", device->queue.size());
  }
  return text;
}

void SimWorker::Emit(WorkerEvent event) {
  last_event_ns_ = std::max(last_event_ns_, fabric_.loop.now_ns() + fabric_.Latency());
  fabric_.loop.At(last_event_ns_, [this, event = std::move(event)]() mutable {
    if (handlers_.on_event) handlers_.on_event(std::move(event));
  });
}

}  // namespace switchtower
