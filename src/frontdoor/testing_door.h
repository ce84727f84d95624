// For tests over real gRPC on loopback: a door over fake sessions, a client that behaves as the JAX one does, and its
// agent.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/net/address.h"
#include "frontdoor/front_door.h"
#include "frontdoor/test_client.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.grpc.pb.h"

namespace switchtower {

using namespace xla::ifrt::proxy;  // NOLINT: messages of the service only

inline const Shape kVector{DType::kS32, {4}};
inline const std::string kBytes = "0123456789abcdef";

// A door over fake sessions, which tell when they close.
struct Door {
  explicit Door(FrontDoorOptions options = {}, uint64_t first_session = 81) : controller(2, 2, first_session) {
    controller.on_open = [this](FakeSession& session) {
      CompiledProgram program;
      program.info.parameters.resize(1);
      program.info.results.resize(1);
      session.AddProgram("identity", program);
      last = &session;
    };
    auto started = FrontDoor::Start(options, controller);
    EXPECT_TRUE(started.ok()) << started.status();
    door = *std::move(started);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    // Or a client that reads nothing would take megabytes all the same.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(door->port()), grpc::InsecureChannelCredentials(),
                                        arguments);
    stub = GrpcIfrtService::NewStub(channel);
  }
  void WaitForSessions(size_t count) {
    while (door->counts().sessions != count) std::this_thread::yield();
  }
  FakeController controller;
  FakeSession* last = nullptr;
  std::unique_ptr<FrontDoor> door;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<GrpcIfrtService::Stub> stub;
};

// One session, used as the JAX client uses it.
struct Client {
  explicit Client(Door& door, int protocol = 25) : stub(*door.stub) {
    GrpcIfrtSessionMetadata metadata;
    metadata.mutable_version()->set_protocol_version(protocol);
    metadata.mutable_version()->set_ifrt_serdes_version_number(3);
    context.AddMetadata("ifrt-proxy-grpc-ifrt-session-metadata-bin", metadata.SerializeAsString());
    stream = stub.IfrtSession(&context);
  }
  ~Client() {
    context.TryCancel();
    if (!finished) stream->Finish();
  }
  void Post(IfrtRequest request) {
    request.mutable_request_metadata()->set_op_id(++op_id);
    EXPECT_TRUE(stream->Write(request));
  }
  IfrtResponse Next() {
    IfrtResponse response;
    EXPECT_TRUE(stream->Read(&response));
    return response;
  }
  IfrtResponse Call(IfrtRequest request) {
    Post(std::move(request));
    IfrtResponse response = Next();
    EXPECT_EQ(response.response_metadata().op_id(), op_id);
    return response;
  }
  void Init() {
    IfrtRequest request;
    request.mutable_init_request();
    session_id = Call(request).init_response().session_id();
  }
  grpc::Status Store(uint64_t handle, const std::string& bytes, int64_t announced = -1) {
    grpc::ClientContext store;
    GrpcHostBufferStoreMetadata metadata;
    metadata.set_session_id(session_id);
    metadata.set_handle(handle);
    metadata.set_buffer_size(announced < 0 ? static_cast<int64_t>(bytes.size()) : announced);
    store.AddMetadata("ifrt-proxy-grpc-host-buffer-store-metadata-bin", metadata.SerializeAsString());
    GrpcHostBufferStoreResponse response;
    auto writer = stub.HostBufferStore(&store, &response);
    constexpr size_t kChunk = 1 << 20;
    for (size_t i = 0; i < bytes.size(); i += kChunk) {
      GrpcHostBufferStoreRequest request;
      request.set_data(bytes.substr(i, kChunk));
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  absl::StatusOr<std::string> Lookup(uint64_t handle) {
    grpc::ClientContext lookup;
    GrpcHostBufferLookupRequest request;
    request.set_session_id(session_id);
    request.set_handle(handle);
    auto reader = stub.HostBufferLookup(&lookup, request);
    std::string bytes;
    int messages = 0;
    GrpcHostBufferLookupResponse response;
    for (; reader->Read(&response); ++messages) bytes += response.data();
    const grpc::Status status = reader->Finish();
    if (!status.ok()) return absl::UnknownError(status.error_message());
    EXPECT_GE(messages, 1);
    return bytes;
  }
  grpc::Status Delete(uint64_t handle) {
    grpc::ClientContext context;
    GrpcHostBufferDeleteRequest request;
    request.set_session_id(session_id);
    request.set_handle(handle);
    GrpcHostBufferDeleteResponse response;
    return stub.HostBufferDelete(&context, request, &response);
  }
  absl::StatusOr<std::string> Read(uint64_t array, uint64_t handle) {
    IfrtRequest request;
    request.mutable_copy_to_host_buffer_request()->set_array_handle(array);
    request.mutable_copy_to_host_buffer_request()->set_host_buffer_handle(handle);
    const absl::Status status = TestClient::StatusOf(Call(request));
    if (!status.ok()) return status;
    return Lookup(handle);
  }

  GrpcIfrtService::Stub& stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<IfrtRequest, IfrtResponse>> stream;
  uint64_t op_id = 0;
  uint64_t session_id = 0;
  bool finished = false;
};

// A plain socket that speaks as agents do.
class AgentSocket {
 public:
  explicit AgentSocket(int port)
      : fd_(*ConnectAndWait(Address::Tcp("127.0.0.1", static_cast<uint16_t>(port)), std::chrono::seconds(10))) {
    fcntl(fd_.get(), F_SETFL, 0);  // blocking
  }
  void Send(uint32_t kind, const std::string& head, const std::string& payload = "") {
    std::string frame = "SWF1";
    Number(kind, 4, frame);
    Number(4 + head.size() + payload.size(), 8, frame);
    Number(head.size(), 4, frame);
    frame += head + payload;
    EXPECT_EQ(send(fd_.get(), frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
  }
  // The next frame's kind; its body in `body`. 0: closed.
  uint32_t Receive(std::string* body) {
    std::string header(16, '\0');
    if (recv(fd_.get(), header.data(), header.size(), MSG_WAITALL) != 16) return 0;
    uint64_t size = 0;
    std::memcpy(&size, header.data() + 8, sizeof(size));
    body->resize(size);
    EXPECT_EQ(recv(fd_.get(), body->data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return static_cast<unsigned char>(header[4]);
  }

 private:
  static void Number(uint64_t value, int bytes, std::string& out) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
  }
  UniqueFd fd_;
};

}  // namespace switchtower
