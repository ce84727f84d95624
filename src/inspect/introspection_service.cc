#include "inspect/introspection_service.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/alarm.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/utf8.h"
#include "inspect/snapshot_proto.h"
#include "inspect/trace_proto.h"

namespace switchtower {

namespace pb = introspection;

IntrospectionService::IntrospectionService(Options options) : options_(std::move(options)), pool_("inspect", 1) {}
IntrospectionService::~IntrospectionService() = default;

grpc::ServerUnaryReactor* IntrospectionService::GetSnapshot(grpc::CallbackServerContext* context,
                                                            const pb::SnapshotRequest* request,
                                                            pb::Snapshot* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (request->patience_ms() < 0 || request->patience_ms() > kPatienceMaxMs) {
    reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, fmt::format("patience_ms must be 0 to {}", kPatienceMaxMs)});
    return reactor;
  }
  auto done = [this, reactor, response](ControllerSnapshot snapshot) {
    pool_.Post([this, reactor, response, snapshot = std::move(snapshot)]() mutable {
      Fill(std::move(snapshot), response);
      reactor->Finish(grpc::Status::OK);
    });
  };
  if (request->patience_ms() == 0) {
    options_.controller->Snapshot(std::move(done));
  } else {
    options_.controller->Inspect(std::chrono::milliseconds(request->patience_ms()), std::move(done));
  }
  return reactor;
}

void IntrospectionService::Fill(ControllerSnapshot snapshot, pb::Snapshot* response) {
  response->set_version(options_.version);
  response->set_time_us(UnixNanoseconds() / 1000);
  ToProto(snapshot, response);
  ToProto(options_.relayed(), response);
  const absl::StatusOr<std::vector<SliceInfo>> slices = options_.slices();
  if (slices.ok()) {
    ToProto(*slices, options_.homes().value_or(std::vector<SliceHome>()), response);
  } else {
    response->set_slices_error(ToUtf8(std::string(slices.status().message())));
  }
}

// Begins with the call, sleeps for its duration, then writes what was recorded.
class IntrospectionService::TraceStream : public grpc::ServerWriteReactor<pb::TraceChunk> {
 public:
  explicit TraceStream(IntrospectionService& service) : service_(service) {}

  void Begin(int duration_ms) {
    LogInfo("tracing for {} ms", duration_ms);
    service_.options_.controller->ReportTimes(true);
    alarm_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(duration_ms), [this](bool) { End(); });
  }
  void OnCancel() override { alarm_.Cancel(); }
  void OnWriteDone(bool ok) override {
    chunks_.pop_front();
    if (!ok) chunks_.clear();
    WriteNext();
  }
  void OnDone() override { delete this; }

 private:
  // Once: when the alarm rings or is cancelled.
  void End() {
    service_.options_.controller->ReportTimes(false);
    chunks_ = ToChunks(service_.options_.trace->Stop());
    WriteNext();
  }
  void WriteNext() {
    if (chunks_.empty()) {
      Finish(grpc::Status::OK);
    } else {
      StartWrite(&chunks_.front());
    }
  }

  IntrospectionService& service_;
  grpc::Alarm alarm_;
  std::deque<pb::TraceChunk> chunks_;
};

grpc::ServerWriteReactor<pb::TraceChunk>* IntrospectionService::Trace(grpc::CallbackServerContext*,
                                                                      const pb::TraceRequest* request) {
  auto* stream = new TraceStream(*this);
  if (request->duration_ms() < 1 || request->duration_ms() > kTraceMaxMs) {
    stream->Finish({grpc::StatusCode::INVALID_ARGUMENT, fmt::format("duration_ms must be 1 to {}", kTraceMaxMs)});
  } else if (!options_.trace->Start()) {
    stream->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "somebody traces already: try again when they are through"});
  } else {
    stream->Begin(request->duration_ms());
  }
  return stream;
}

}  // namespace switchtower
