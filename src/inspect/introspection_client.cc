#include "inspect/introspection_client.h"

#include <utility>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "switchtower/introspection_service.grpc.pb.h"

namespace switchtower {

struct IntrospectionClient::Impl {
  std::string address;
  std::unique_ptr<introspection::Introspection::Stub> stub;

  absl::Status Explain(const grpc::Status& status) const {
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return absl::Status(code, fmt::format("no proxy answers at {}: {}", address, status.error_message()));
      case grpc::StatusCode::UNIMPLEMENTED:
        return absl::Status(code,
                            fmt::format("the server at {} tells nothing of itself: it is no switchtower proxy, an "
                                        "older one, or was started with --no-introspection",
                                        address));
      default:
        return absl::Status(code, status.error_message());
    }
  }
};

IntrospectionClient::IntrospectionClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IntrospectionClient::~IntrospectionClient() = default;

absl::StatusOr<std::unique_ptr<IntrospectionClient>> IntrospectionClient::Create(const std::string& target) {
  static constexpr char kScheme[] = "grpc://";
  std::string address = target.rfind(kScheme, 0) == 0 ? target.substr(sizeof(kScheme) - 1) : target;
  if (address.empty() || address.find(':') == std::string::npos || address.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{} is no proxy's address: give --target grpc://HOST:PORT or set JAX_BACKEND_TARGET",
                    target.empty() ? "nothing" : target));
  }
  auto impl = std::make_unique<Impl>();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a large cluster's snapshot
  impl->stub = introspection::Introspection::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  impl->address = std::move(address);
  return std::unique_ptr<IntrospectionClient>(new IntrospectionClient(std::move(impl)));
}

absl::StatusOr<introspection::Snapshot> IntrospectionClient::GetSnapshot(std::chrono::milliseconds patience) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience + std::chrono::seconds(10));
  introspection::SnapshotRequest request;
  request.set_patience_ms(static_cast<int32_t>(patience.count()));
  introspection::Snapshot snapshot;
  const grpc::Status status = impl_->stub->GetSnapshot(&context, request, &snapshot);
  if (!status.ok()) return impl_->Explain(status);
  return snapshot;
}

absl::StatusOr<IntrospectionClient::Trace> IntrospectionClient::Record(std::chrono::milliseconds duration) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + duration + std::chrono::seconds(60));
  introspection::TraceRequest request;
  request.set_duration_ms(static_cast<int32_t>(duration.count()));
  const auto reader = impl_->stub->Trace(&context, request);
  Trace trace;
  introspection::TraceChunk chunk;
  while (reader->Read(&chunk)) {
    for (introspection::TraceEvent& event : *chunk.mutable_events()) trace.events.push_back(std::move(event));
    trace.dropped += chunk.dropped();
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return impl_->Explain(status);
  return trace;
}

}  // namespace switchtower
