// The real WorkerChannel: a framed socket to one worker, opened with a hello that both sides check.
//
//   Connect --> socket --> kHello --> kHelloReply --> channel: Send = kCommand frames, events = kEvent frames
//
// Place:    controller/cluster; the one file here that knows sockets. Sessions of the protocol: wire/worker.
// Threads:  SocketConnector::Connect and the channel's methods from any thread; `done` and handlers run on the
//           thread of the connection's loop.
// Lifetime: the loops outlive connector and channels.
// Errors:   sentences with the worker's address. Commands that a full socket can't take wait here, in order;
//           queued_bytes counts them too.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/net/event_loop.h"
#include "controller/cluster/worker_connector.h"

namespace switchtower {

class SocketConnector : public WorkerConnector {
 public:
  struct Options {
    // Connections are dealt out to them in turn: a write costs a system call for each worker, and one thread does
    // some hundred thousand a second.
    std::vector<EventLoop*> loops;
    std::function<std::string()> cluster_id;  // any thread
    std::string controller;                   // for people: "proxy host:port pid 12"
    // For the connection and the answer to the hello, each. A worker may wait for its lease some seconds.
    std::chrono::milliseconds timeout{10000};
    std::chrono::milliseconds pause_before_failure{300};
  };
  explicit SocketConnector(Options options) : options_(std::move(options)) {}
  void Connect(WorkerConnectRequest request, Done done) override;

 private:
  const Options options_;
  std::atomic<size_t> connections_{0};
};

}  // namespace switchtower
