// What gRPC alone costs a server: the CPU time of an empty message there and back on a stream, and of one written.
// The proxy's figures stand beside these. Prints a JSON line for each case.
//
//   grpc_echo [MESSAGES]
//
//   alone   each message waits for the one before: what a client pays that awaits each step
//   ahead   messages are written as fast as the stream takes them
//   write   the server writes, nobody asks: what one more receiver would cost
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "base/abseil_locks.h"
#include "child_server.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.grpc.pb.h"

namespace switchtower::bench {
namespace {

using xla::ifrt::proxy::GrpcIfrtService;
using xla::ifrt::proxy::IfrtRequest;
using xla::ifrt::proxy::IfrtResponse;

// Answers a request with as many messages as its op id says.
class EchoStream : public grpc::ServerBidiReactor<IfrtRequest, IfrtResponse> {
 public:
  EchoStream() { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    left_ = request_.request_metadata().op_id();
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (left_ == 0) return StartRead(&request_);
    --left_;
    StartWrite(&response_);
  }
  IfrtRequest request_;
  IfrtResponse response_;
  uint64_t left_ = 0;
};

class EchoService : public GrpcIfrtService::CallbackService {
  grpc::ServerBidiReactor<IfrtRequest, IfrtResponse>* IfrtSession(grpc::CallbackServerContext*) override {
    return new EchoStream();
  }
};

int Serve() {
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  AnnounceAndServe("127.0.0.1:" + std::to_string(port));
  std::_Exit(0);
}

int Main(int messages) {
  absl::StatusOr<std::unique_ptr<ChildServer>> server = ChildServer::Start({"--serve"});
  if (!server.ok()) {
    fmt::print(stderr, "{}\n", server.status().ToString());
    return 1;
  }
  auto stub = GrpcIfrtService::NewStub(grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->IfrtSession(&context);
  IfrtRequest request;
  const auto read = [&](int count) {
    IfrtResponse response;
    for (int i = 0; i < count; ++i) stream->Read(&response);
  };
  const auto alone = [&](int count) {
    request.mutable_request_metadata()->set_op_id(1);
    for (int i = 0; i < count; ++i) {
      stream->Write(request);
      read(1);
    }
  };
  const auto ahead = [&](int count) {
    request.mutable_request_metadata()->set_op_id(1);
    std::thread reader(read, count);
    for (int i = 0; i < count; ++i) stream->Write(request);
    reader.join();
  };
  const auto write = [&](int count) {
    request.mutable_request_metadata()->set_op_id(static_cast<uint64_t>(count));
    stream->Write(request);
    read(count);
  };
  const auto measure = [&](const char* mode, const auto& run) {
    run(messages / 10);
    const int64_t before = (*server)->CpuNs();
    run(messages);
    fmt::print("{{\"bench\": \"grpc_echo\", \"mode\": \"{}\", \"messages\": {}, \"server_cpu_us\": {:.3f}}}\n", mode,
               messages, static_cast<double>((*server)->CpuNs() - before) / 1e3 / messages);
  };
  measure("alone", alone);
  measure("ahead", ahead);
  measure("write", write);
  context.TryCancel();
  return 0;
}

}  // namespace
}  // namespace switchtower::bench

int main(int argc, char** argv) {
  switchtower::DontCheckAbseilLocks();
  if (argc > 1 && std::strcmp(argv[1], "--serve") == 0) return switchtower::bench::Serve();
  const int messages = argc > 1 ? std::atoi(argv[1]) : 20'000;
  if (messages < 10) {
    std::fprintf(stderr, "usage: grpc_echo [MESSAGES]\n");
    return 1;
  }
  return switchtower::bench::Main(messages);
}
