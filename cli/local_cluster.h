// A whole cluster on this machine: resource manager, proxy and S x H workers as supervised processes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/supervisor.h"

namespace switchtower {

struct LocalClusterOptions {
  int slices = 1;
  int hosts = 1;            // worker processes a slice
  int devices = 1;          // devices a worker
  int port = 29000;         // of the proxy; 0: any free one
  bool share_cores = true;  // core_share.h
  std::string pjrt_plugin;
  std::string log_dir;  // empty: warnings and errors on stderr
  std::string log_level;
  std::vector<std::string> proxy_flags;  // passed on as they are
  std::vector<std::string> worker_flags;
};

class LocalCluster {
 public:
  // Starts all and waits until every worker is in.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(LocalClusterOptions options);

  const std::string& address() const { return address_; }  // "grpc://127.0.0.1:29000"
  Supervisor& supervisor() { return supervisor_; }

 private:
  absl::Status StartProcesses(const LocalClusterOptions& options);

  Supervisor supervisor_;
  std::string address_;
};

// What a client of the cluster at `address` needs.
std::map<std::string, std::string> ClientEnvironment(const std::string& address);

}  // namespace switchtower
