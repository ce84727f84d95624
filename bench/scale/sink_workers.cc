#include "scale/sink_workers.h"

#include <utility>

#include "wire/worker/worker_codec.h"

namespace switchtower::bench {

class SinkWorkers::Channel : public WorkerChannel {
 public:
  explicit Channel(SinkWorkers& sinks) : sinks_(sinks) {}

  void Start(Handlers handlers) override { handlers_ = std::move(handlers); }
  void Send(std::shared_ptr<const SharedCommand> command, When) override {
    if (const auto* launch = std::get_if<Launch>(&command->command())) newest_ = launch->id;
    if (const auto* question = std::get_if<AwaitReady>(&command->command())) asked_.push_back(question->request);
    sinks_.Took(command);
  }
  size_t queued_bytes() const override { return 0; }
  void Close() override { handlers_ = {}; }

  void Answer() {
    if (!handlers_.on_event) return;
    if (newest_ != answered_) handlers_.on_event(Watermark{answered_ = newest_});
    for (RequestId request : std::exchange(asked_, {})) handlers_.on_event(Ready{request, absl::OkStatus()});
  }

 private:
  SinkWorkers& sinks_;
  Handlers handlers_;
  LaunchId newest_, answered_;
  std::vector<RequestId> asked_;
};

void SinkWorkers::Connect(WorkerConnectRequest, Done done) {
  auto channel = std::make_unique<Channel>(*this);
  {
    MutexLock lock(mutex_);
    channels_.push_back(channel.get());
  }
  done(std::move(channel));
}

void SinkWorkers::Took(const std::shared_ptr<const SharedCommand>& command) {
  // As a socket's channel does; what is behind the head, a program's bytes for instance, isn't counted.
  const size_t bytes = command->encoded(EncodeCommandHead)->size();
  ++counts_.commands;
  counts_.sent_bytes += bytes;
  if (command != last_) {
    counts_.encoded_bytes += bytes;
    last_ = command;
  }
  if (!std::holds_alternative<Launch>(command->command())) return;
  if (launches_.fetch_add(1, std::memory_order_acq_rel) + 1 < awaited_.load(std::memory_order_acquire)) return;
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

void SinkWorkers::AwaitLaunches(uint64_t launches) {
  awaited_.store(launches, std::memory_order_release);
  MutexLock lock(mutex_);
  // A notification may have come before the wait: look again soon.
  while (launches_.load(std::memory_order_acquire) < launches) changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
}

void SinkWorkers::Answer() {
  std::vector<Channel*> channels;
  {
    MutexLock lock(mutex_);
    channels = channels_;
  }
  for (Channel* channel : channels) channel->Answer();
}

}  // namespace switchtower::bench
