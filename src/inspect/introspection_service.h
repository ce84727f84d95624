// Serves switchtower.introspection.Introspection: snapshots, and traces of what happens meanwhile.
//
//   status, top, why --GetSnapshot--> controller (asks its workers) + resource manager (slices) + door (relayed)
//   trace ------------Trace---------> recorder on, workers report times ... recorder off --> chunks
//
// Place:    inspect; beside the door, which has it on its port.
// Threads:  gRPC's; conversions and questions to the resource manager run on a thread of its own.
// Lifetime: the controller and the recorder outlive it, and it outlives the gRPC server.
// Errors:   RESOURCE_EXHAUSTED while somebody else traces; INVALID_ARGUMENT for durations out of range.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "base/strand.h"
#include "controller/api/snapshot.h"
#include "controller/api/trace.h"
#include "resource_manager/api/cluster.h"
#include "resource_manager/api/slice_home.h"
#include "switchtower/introspection_service.grpc.pb.h"
#include "types/home_door.h"

namespace switchtower {

class IntrospectionService final : public introspection::Introspection::CallbackService {
 public:
  static constexpr int kPatienceMaxMs = 5000;
  static constexpr int kTraceMaxMs = 600'000;

  struct Options {
    ControllerIntrospection* controller = nullptr;
    TraceRecorder* trace = nullptr;
    std::function<absl::StatusOr<std::vector<SliceInfo>>()> slices;  // may block
    std::function<absl::StatusOr<std::vector<SliceHome>>()> homes;   // may block
    std::function<std::vector<RelayedSession>()> relayed;
    std::string version;
  };
  explicit IntrospectionService(Options options);
  ~IntrospectionService() override;

  grpc::ServerUnaryReactor* GetSnapshot(grpc::CallbackServerContext* context,
                                        const introspection::SnapshotRequest* request,
                                        introspection::Snapshot* response) override;
  grpc::ServerWriteReactor<introspection::TraceChunk>* Trace(grpc::CallbackServerContext* context,
                                                             const introspection::TraceRequest* request) override;

 private:
  class TraceStream;
  void Fill(ControllerSnapshot snapshot, introspection::Snapshot* response);

  const Options options_;
  ThreadPool pool_;
};

}  // namespace switchtower
