// Asks a proxy about itself.
//
// Place:    inspect; the command line's side of introspection_service.h.
// Threads:  one; the calls block.
// Errors:   InvalidArgument for an address that is none; otherwise what gRPC says, with the address in it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "switchtower/introspection_service.pb.h"

namespace switchtower {

class IntrospectionClient {
 public:
  // `target`: "grpc://HOST:PORT", as clients' JAX_BACKEND_TARGET, or "HOST:PORT".
  static absl::StatusOr<std::unique_ptr<IntrospectionClient>> Create(const std::string& target);
  ~IntrospectionClient();

  // `patience`: for how long the proxy waits for its workers.
  absl::StatusOr<introspection::Snapshot> GetSnapshot(std::chrono::milliseconds patience);

  struct Trace {
    std::vector<introspection::TraceEvent> events;
    uint64_t dropped = 0;
  };
  absl::StatusOr<Trace> Record(std::chrono::milliseconds duration);

 private:
  struct Impl;
  explicit IntrospectionClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace switchtower
