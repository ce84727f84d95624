// The resource manager as a gRPC server: one stream for each worker and each proxy.
//
// Place:    resource_manager, above ClusterTable, which it guards by one mutex (all calls are short).
// Threads:  gRPC's callback threads, and one that watches heartbeats.
// Lifetime: Stop() ends the streams first, so that it doesn't wait for them; the destructor calls it.
// Errors:   a caller that can't be served gets a `rejected` with a sentence and the end of its stream.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "resource_manager/cluster_table.h"

namespace switchtower {

struct ResourceManagerOptions {
  std::string bind = "127.0.0.1";
  int port = 0;  // 0: the system picks one
  ClusterOptions cluster;
  // A member that says nothing for this long is taken as gone. The end of its stream counts at once.
  int heartbeat_timeout_ms = 10000;
};

class ResourceManagerServer {
 public:
  static absl::StatusOr<std::unique_ptr<ResourceManagerServer>> Start(const ResourceManagerOptions& options);
  ~ResourceManagerServer();

  int port() const;
  void Stop();

 private:
  class Impl;
  explicit ResourceManagerServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace switchtower
