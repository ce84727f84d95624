// A client's bidirectional gRPC stream to the resource manager: what the proxy's and the worker's side share.
//
// Place:    resource_manager; under ResourceManagerClient and WorkerRegistration.
// Threads:  a reader and, once asked for, one that beats; Write from any thread. None of them waits inside gRPC: who does
//           is one of those that serve all of the process' connections, and would have to hand on to the others what
//           it finds there.
// Lifetime: Stop, or the destructor, cancels the call and joins both; not on one of them.
// Errors:   `on_closed` hears of the end, however it comes, with UNAVAILABLE. A Write afterwards is false.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/strand.h"
#include "switchtower/resource_manager_service.grpc.pb.h"

namespace switchtower {

// `address` without a scheme. Retries until the channel is up; says now and then what it waits for.
inline absl::StatusOr<std::shared_ptr<grpc::Channel>> DialResourceManager(std::string address,
                                                                          std::chrono::milliseconds timeout) {
  constexpr char kScheme[] = "grpc://";
  if (address.rfind(kScheme, 0) == 0) address = address.substr(sizeof(kScheme) - 1);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt("grpc.enable_http_proxy", 0);
  auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto deadline = std::chrono::system_clock::now() + timeout;
  auto next_word = std::chrono::system_clock::now() + std::chrono::seconds(2);
  while (!channel->WaitForConnected(std::min(next_word, deadline))) {
    if (std::chrono::system_clock::now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format(
          "no resource manager answers at {} (tried for {} s): start one with `switchtower resource-manager`, "
          "or check --resource_manager_address",
          address, timeout.count() / 1000));
    }
    LogWarn("waiting for the resource manager at {}", address);
    next_word += std::chrono::seconds(5);
  }
  return channel;
}

template <typename Out, typename In>
class ClientStream : private grpc::ClientBidiReactor<Out, In> {
 public:
  using Reactor = grpc::ClientBidiReactor<Out, In>;
  using Reader = absl::AnyInvocable<void(const In&)>;
  using Closed = absl::AnyInvocable<void(absl::Status)>;

  ~ClientStream() override { Stop(); }

  // `open` begins the call: a context and its reactor. `on_message` and `on_closed` run on the reader thread.
  template <typename Open>
  void Start(Open open, Reader on_message, Closed on_closed) {
    open(&context_, static_cast<Reactor*>(this));
    this->AddHold();  // until reading ends: reads and writes begin on our threads
    this->StartRead(&incoming_);
    this->StartCall();
    reader_ = std::thread([this, on_message = std::move(on_message), on_closed = std::move(on_closed)]() mutable {
      NameThread("rm-reader");
      In message;
      while (Next(&message)) on_message(message);
      on_closed(End());
    });
  }
  // Idempotent: the first call starts the beats.
  void StartHeartbeat(int interval_ms, Out beat) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (stopping_ || heartbeat_.joinable()) return;
    heartbeat_ = std::thread([this, interval_ms, beat = std::move(beat)] {
      NameThread("rm-heartbeat");
      MutexLock lock(mutex_);
      while (!stopping_) {
        WriteLocked(beat);
        changed_.WaitFor(mutex_, std::chrono::milliseconds(interval_ms));
      }
    });
  }
  // False once the stream has ended.
  bool Write(const Out& message) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !stopping_ && WriteLocked(message);
  }
  void Stop() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    context_.TryCancel();
    if (heartbeat_.joinable()) heartbeat_.join();
    if (reader_.joinable()) reader_.join();
  }

 private:
  // A manager that takes nothing doesn't answer either: the stream is ended.
  static constexpr size_t kUnwrittenMax = 1024;

  bool WriteLocked(const Out& message) REQUIRES(mutex_) {
    if (read_ended_) return false;
    if (unwritten_.size() == kUnwrittenMax) {
      context_.TryCancel();
      return false;
    }
    unwritten_.push_back(message);
    if (unwritten_.size() == 1) this->StartWrite(&unwritten_.front());
    return true;
  }

  bool Next(In* message) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!arrived_ && !read_ended_) changed_.Wait(mutex_);
    if (!arrived_) return false;
    arrived_ = false;
    std::swap(*message, incoming_);
    this->StartRead(&incoming_);
    return true;
  }
  absl::Status End() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!done_.has_value()) changed_.Wait(mutex_);
    return absl::UnavailableError(fmt::format("the connection to the resource manager ended{}{}",
                                              done_->error_message().empty() ? "" : ": ", done_->error_message()));
  }

  void OnReadDone(bool ok) override EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      (ok ? arrived_ : read_ended_) = true;
      changed_.NotifyAll();
    }
    if (!ok) this->RemoveHold();
  }
  void OnWriteDone(bool ok) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    unwritten_.pop_front();
    if (!ok || read_ended_) {
      unwritten_.clear();
    } else if (!unwritten_.empty()) {
      this->StartWrite(&unwritten_.front());
    }
  }
  void OnDone(const grpc::Status& status) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);  // notified under it: with the reader's return this object may end
    done_ = status;
    changed_.NotifyAll();
  }

  grpc::ClientContext context_;
  std::thread reader_;
  std::thread heartbeat_;
  In incoming_;  // gRPC's while it reads
  Mutex mutex_;
  CondVar changed_;
  std::deque<Out> unwritten_ GUARDED_BY(mutex_);  // the first one is under way
  bool arrived_ GUARDED_BY(mutex_) = false;       // a message; nothing is read
  bool read_ended_ GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> done_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace switchtower
