// A client's bidirectional gRPC stream to the resource manager: what the proxy's and the worker's side share.
//
// Place:    resource_manager; under ResourceManagerClient and WorkerRegistration.
// Threads:  a reader and, once asked for, one that beats; Write from any thread, it may wait for the socket.
// Lifetime: Stop, or the destructor, cancels the call and joins both; not on one of them.
// Errors:   `on_closed` hears of the end, however it comes, with UNAVAILABLE. A Write afterwards is false.
#pragma once

#include <chrono>
#include <memory>
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
class ClientStream {
 public:
  using Reader = absl::AnyInvocable<void(const In&)>;
  using Closed = absl::AnyInvocable<void(absl::Status)>;

  ~ClientStream() { Stop(); }

  // `open` starts the call on a context; `on_message` and `on_closed` run on the reader thread.
  template <typename Open>
  void Start(Open open, Reader on_message, Closed on_closed) {
    stream_ = open(&context_);
    reader_ = std::thread([this, on_message = std::move(on_message), on_closed = std::move(on_closed)]() mutable {
      NameThread("rm-reader");
      In message;
      while (stream_->Read(&message)) on_message(message);
      const grpc::Status status = stream_->Finish();
      on_closed(
          absl::UnavailableError(fmt::format("the connection to the resource manager ended{}{}",
                                             status.error_message().empty() ? "" : ": ", status.error_message())));
    });
  }
  // Idempotent: the first call starts the beats.
  void StartHeartbeat(int interval_ms, Out beat) {
    MutexLock lock(mutex_);
    if (stopping_ || heartbeat_.joinable()) return;
    heartbeat_ = std::thread([this, interval_ms, beat = std::move(beat)] {
      NameThread("rm-heartbeat");
      MutexLock lock(mutex_);
      while (!stopping_) {
        stream_->Write(beat);
        wake_.WaitFor(mutex_, std::chrono::milliseconds(interval_ms));
      }
    });
  }
  bool Write(const Out& message) {
    MutexLock lock(mutex_);
    return !stopping_ && stream_->Write(message);
  }
  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.NotifyAll();
    context_.TryCancel();
    if (heartbeat_.joinable()) heartbeat_.join();
    if (reader_.joinable()) reader_.join();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<Out, In>> stream_;
  std::thread reader_;
  std::thread heartbeat_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace switchtower
