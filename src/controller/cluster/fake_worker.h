// Workers for tests of the controller: they keep the commands they get and say what the test wants.
//
// Threads:  any. Events go to the controller's handlers on the calling thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "controller/cluster/worker_connector.h"

namespace switchtower {

class FakeWorker {
 public:
  // Answers what needs an answer at once: launches end, arrays are ready, reads give `read_bytes`.
  std::atomic<bool> automatic{true};
  std::string read_bytes = "abcd";

  std::vector<WorkerCommand> commands() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return commands_;
  }
  template <typename T>
  std::vector<T> All() const {
    std::vector<T> found;
    for (const WorkerCommand& command : commands()) {
      if (const T* one = std::get_if<T>(&command)) found.push_back(*one);
    }
    return found;
  }
  // Waits for the `count`th command of this kind; gives up (an empty value) after 20 s.
  template <typename T>
  T Await(size_t count = 1) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (true) {
      size_t seen = 0;
      for (const WorkerCommand& command : commands_) {
        const T* one = std::get_if<T>(&command);
        if (one != nullptr && ++seen == count) return *one;
      }
      if (std::chrono::steady_clock::now() > deadline) return T{};
      changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
    }
  }
  void Emit(WorkerEvent event) {
    if (handlers_.on_event) handlers_.on_event(std::move(event));
  }
  void Break(absl::Status why) {
    if (handlers_.on_closed) std::exchange(handlers_.on_closed, nullptr)(std::move(why));
  }

  void Take(const WorkerCommand& command) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      commands_.push_back(command);
    }
    changed_.NotifyAll();
    if (!automatic) return;
    if (const auto* launch = std::get_if<Launch>(&command)) Emit(Watermark{launch->id});
    if (const auto* ask = std::get_if<AskActivity>(&command))
      Emit(WorkerActivity{ask->request, {}, {}, {}, {}, {}, {}});
    if (const auto* await = std::get_if<AwaitReady>(&command)) Emit(Ready{await->request, absl::OkStatus()});
    if (const auto* read = std::get_if<ReadShard>(&command)) {
      Emit(ReadData{read->request, std::make_shared<const std::string>(read_bytes), true, absl::OkStatus()});
    }
  }
  void Start(WorkerChannel::Handlers handlers) { handlers_ = std::move(handlers); }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<WorkerCommand> commands_ GUARDED_BY(mutex_);
  WorkerChannel::Handlers handlers_;
};

class FakeWorkerChannel : public WorkerChannel {
 public:
  explicit FakeWorkerChannel(std::shared_ptr<FakeWorker> worker) : worker_(std::move(worker)) {}
  void Start(Handlers handlers) override { worker_->Start(std::move(handlers)); }
  void Send(std::shared_ptr<const SharedCommand> command, When) override { worker_->Take(command->command()); }
  size_t queued_bytes() const override { return 0; }
  void Close() override {}

 private:
  const std::shared_ptr<FakeWorker> worker_;
};

// Makes a FakeWorker for each incarnation that the controller connects to.
class FakeConnector : public WorkerConnector {
 public:
  void Connect(WorkerConnectRequest request, Done done) override {
    absl::Status refusal;
    std::shared_ptr<FakeWorker> worker;
    {
      MutexLock lock(mutex_);
      if (refuse_.contains(request.worker.id)) {
        refusal = absl::UnavailableError("connection refused");
      } else {
        worker = std::make_shared<FakeWorker>();
        worker->automatic = automatic_;
        workers_[request.worker.id] = worker;
      }
    }
    if (!refusal.ok()) {
      done(refusal);
    } else {
      done(std::make_unique<FakeWorkerChannel>(std::move(worker)));
    }
    changed_.NotifyAll();
  }
  // Waits until the controller has connected; null after 20 s.
  std::shared_ptr<FakeWorker> Await(WorkerId id) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (!workers_.contains(id) && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
    }
    return workers_[id];
  }
  void Refuse(WorkerId id) {
    MutexLock lock(mutex_);
    refuse_[id] = true;
  }
  void set_automatic(bool automatic) {
    MutexLock lock(mutex_);
    automatic_ = automatic;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool automatic_ GUARDED_BY(mutex_) = true;
  std::map<WorkerId, bool> refuse_ GUARDED_BY(mutex_);
  std::map<WorkerId, std::shared_ptr<FakeWorker>> workers_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
