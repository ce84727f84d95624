// The front door over real gRPC on loopback, with a plain gRPC client that behaves as the JAX one does.
#include "frontdoor/front_door.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontdoor/client_socket.h"
#include "frontdoor/read_gate.h"
#include "frontdoor/testing_door.h"

namespace switchtower {
namespace {

TEST(FrontDoorTest, NegotiatesVersions) {
  Door door;
  auto negotiate = [&](int protocol_min, int protocol_max, int serdes_max) {
    grpc::ClientContext context;
    GrpcGetVersionRequest request;
    request.mutable_min_version()->set_protocol_version(protocol_min);
    request.mutable_max_version()->set_protocol_version(protocol_max);
    request.mutable_max_version()->set_ifrt_serdes_version_number(serdes_max);
    GrpcGetVersionResponse response;
    const grpc::Status status = door.stub->GetVersion(&context, request, &response);
    return status.ok() ? response.version().protocol_version() * 10 + response.version().ifrt_serdes_version_number()
                       : -static_cast<int>(status.error_code());
  };
  EXPECT_EQ(negotiate(16, 25, 3), 253);
  EXPECT_EQ(negotiate(16, 40, 6), 253);
  EXPECT_EQ(negotiate(16, 18, 3), 183);
  EXPECT_EQ(negotiate(10, 15, 3), -static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
  EXPECT_EQ(negotiate(16, 25, 2), -static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
}

TEST(FrontDoorTest, RefusesAnUnknownVersionAndMissingMetadata) {
  Door door;
  grpc::ClientContext context;
  GrpcIfrtSessionMetadata metadata;
  metadata.mutable_version()->set_protocol_version(99);
  context.AddMetadata("ifrt-proxy-grpc-ifrt-session-metadata-bin", metadata.SerializeAsString());
  EXPECT_EQ(door.stub->IfrtSession(&context)->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  grpc::ClientContext bare;
  EXPECT_EQ(door.stub->IfrtSession(&bare)->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(FrontDoorTest, ARefusedSessionIsToldWhyInTheAnswerToItsFirstRequest) {
  Door door;
  door.controller.open_error = absl::ResourceExhaustedError("no slice is free");
  Client client(door);
  IfrtRequest request;
  request.mutable_init_request();
  client.Post(request);
  const auto answer = client.Next().response_metadata();
  EXPECT_EQ(answer.op_id(), 1);
  EXPECT_EQ(answer.status().code(), tensorflow::error::RESOURCE_EXHAUSTED);
  EXPECT_EQ(answer.status().message(), "no slice is free");
  client.finished = true;
  EXPECT_EQ(client.stream->Finish().error_message(), "no slice is free");
}

// A gigabyte of zeros is a megabyte then.
TEST(FrontDoorTest, CompressedMessagesAreRefused) {
  Door door;
  for (auto algorithm : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    GrpcGetVersionRequest request;
    request.mutable_min_version()->set_protocol_version(25);
    request.mutable_max_version()->set_protocol_version(25);
    request.mutable_min_version()->set_ifrt_serdes_version_number(3);
    request.mutable_max_version()->set_ifrt_serdes_version_number(3);
    GrpcGetVersionResponse response;
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    const grpc::Status status = door.stub->GetVersion(&context, request, &response);
    EXPECT_EQ(status.error_code(),
              algorithm == GRPC_COMPRESS_NONE ? grpc::StatusCode::OK : grpc::StatusCode::UNIMPLEMENTED)
        << status.error_message();
  }
}

TEST(FrontDoorTest, PutAndReadInAnyOrder) {
  Door door;
  Client client(door);
  client.Init();
  // The request first, then the upload.
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(client.Store(1, kBytes).ok());
  EXPECT_EQ(*client.Read(1, 2), kBytes);
  EXPECT_TRUE(client.Delete(2).ok());
  EXPECT_TRUE(client.Delete(2).ok());
  EXPECT_FALSE(client.Lookup(2).ok());
  // The upload first; several messages long.
  const Shape large{DType::kU8, {(3 << 20) + 5}};
  std::string bytes(large.dims[0], '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  EXPECT_TRUE(client.Store(3, bytes).ok());
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(3, large, TestClient::Replicated({1})))).ok());
  EXPECT_EQ(*client.Read(3, 4), bytes);
  // No bytes at all.
  const Shape empty{DType::kF32, {0, 3}};
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(5, empty, TestClient::Replicated({1})))).ok());
  EXPECT_TRUE(client.Store(5, "").ok());
  EXPECT_EQ(*client.Read(5, 6), "");
}

// What the client counts by: answers to requests that make arrays, in the order they are written.
TEST(FrontDoorTest, NumbersAnswersWithoutGaps) {
  Door door;
  Client client(door);
  client.Init();
  IfrtRequest other, bad;
  other.mutable_init_request();
  bad.mutable_copy_arrays_request()->add_array_handles(99);
  for (uint64_t i = 1; i <= 50; ++i) {
    client.Post(TestClient::MakeArray(i, kVector, TestClient::Replicated({0})));
    client.Post(other);
    client.Post(bad);
  }
  int64_t expected = 0;
  for (int i = 0; i < 150; ++i) {
    const IfrtResponse response = client.Next();
    if (response.has_make_array_from_host_buffer_response()) {
      EXPECT_EQ(response.response_metadata().seq_num(), expected++);
    }
  }
  EXPECT_EQ(expected, 50);
}

TEST(FrontDoorTest, UploadErrors) {
  Door door;
  Client client(door);
  client.Init();
  EXPECT_EQ(client.Store(1, kBytes, 20).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_TRUE(client.Store(2, kBytes).ok());
  EXPECT_EQ(client.Store(2, kBytes).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  client.session_id = 12345;
  EXPECT_EQ(client.Store(3, kBytes).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_FALSE(client.Lookup(3).ok());
}

TEST(FrontDoorTest, UploadsWithoutTheirRequestWaitOutside) {
  FrontDoorOptions options;
  options.waiting_upload_bytes_max = 1 << 20;
  Door door(options);
  Client client(door);
  client.Init();
  const Shape shape{DType::kU8, {6 << 20}};
  const std::string bytes(6 << 20, 'z');
  auto first = std::async(std::launch::async, [&] { return client.Store(1, bytes); });
  while (door.door->counts().waiting_upload_bytes < (1 << 20)) std::this_thread::yield();
  EXPECT_LT(door.door->counts().waiting_upload_bytes, 2 << 20);
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, shape, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(*client.Read(1, 2), bytes);
  // A session that ends lets go of uploads that wait.
  auto stuck = std::async(std::launch::async, [&] { return client.Store(3, bytes); });
  while (door.door->counts().waiting_upload_bytes < (1 << 20)) std::this_thread::yield();
  client.context.TryCancel();
  EXPECT_FALSE(stuck.get().ok());
}

// An executable that gives its argument back.
uint64_t Identity(Client& client) {
  IfrtRequest compile;
  auto* request = compile.mutable_compile_request();
  request->mutable_program()->set_type_name("xla::ifrt::XlaProgram");
  request->mutable_program()->set_data("identity");
  request->mutable_compile_options()->set_type_name("xla::ifrt::XlaCompileOptions");
  return client.Call(compile).compile_response().loaded_executable_handle();
}

IfrtRequest Execute(uint64_t executable, uint64_t argument, uint64_t result) {
  IfrtRequest execute;
  auto* launch = execute.mutable_loaded_executable_execute_request();
  launch->set_loaded_executable_handle(executable);
  launch->add_args_handles(argument);
  launch->add_result_array_handle(result);
  return execute;
}

TEST(FrontDoorTest, LaunchesInFlightStopTheReading) {
  FrontDoorOptions options;
  options.launches_in_flight_max = 4;
  Door door(options);
  Client client(door);
  client.Init();
  door.last->HoldLaunches();
  const uint64_t executable = Identity(client);
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(client.Store(1, kBytes).ok());
  constexpr int kLaunches = 3000;
  std::thread writer([&] {
    for (int i = 0; i < kLaunches; ++i) client.Post(Execute(executable, 1, 1000 + i));
  });
  // What was read before the stop is handled, the rest stays with the client.
  for (int i = 0; i < 4; ++i) client.Next();
  EXPECT_LE(door.last->under_way(), 4u + ReadGate::Limits().requests + 1);
  door.last->ReleaseLaunches();
  for (int i = 4; i < kLaunches; ++i) EXPECT_TRUE(TestClient::StatusOf(client.Next()).ok());
  writer.join();
}

// Its requests gather in its socket (ClientSocket).
TEST(FrontDoorTest, AClientThatRunsAheadForLongIsAnsweredInFull) {
  Door door;
  Client client(door);
  client.Init();
  const uint64_t executable = Identity(client);
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(client.Store(1, kBytes).ok());
  int posted = 0;
  for (const auto end = std::chrono::steady_clock::now() + 3 * ClientSocket::kAheadFor;
       std::chrono::steady_clock::now() < end; ++posted) {
    client.Post(Execute(executable, 1, 1000 + posted));
  }
  for (int i = 0; i < posted; ++i) EXPECT_TRUE(TestClient::StatusOf(client.Next()).ok());
  EXPECT_EQ(*client.Read(1, 2), kBytes);
}

TEST(FrontDoorTest, ALargeProgramIsOneMessage) {
  Door door;
  Client client(door);
  client.Init();
  IfrtRequest compile;
  compile.mutable_compile_request()->mutable_program()->set_type_name("xla::ifrt::XlaProgram");
  compile.mutable_compile_request()->mutable_program()->set_data(std::string(9 << 20, 'p'));
  EXPECT_EQ(TestClient::StatusOf(client.Call(compile)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FrontDoorTest, SessionsEndHoweverTheClientLeaves) {
  Door door;
  {
    Client cancels(door);
    cancels.Init();
    Client closes(door);
    closes.Init();
    EXPECT_EQ(door.door->counts().sessions, 2u);
    closes.stream->WritesDone();
    IfrtResponse response;
    EXPECT_FALSE(closes.stream->Read(&response));
    door.WaitForSessions(1);
  }
  door.WaitForSessions(0);
}

TEST(FrontDoorTest, SessionsAreApart) {
  Door door;
  Client one(door), other(door);
  one.Init();
  other.Init();
  EXPECT_NE(one.session_id, other.session_id);
  EXPECT_TRUE(TestClient::StatusOf(one.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(one.Store(1, kBytes).ok());
  EXPECT_FALSE(other.Read(1, 2).ok());
  EXPECT_EQ(*one.Read(1, 2), kBytes);
}

// Everybody may see which sessions there are, by their numbers; nobody comes to their host buffers by that.
TEST(FrontDoorTest, ASessionsNumberDoesntLeadToItsHostBuffers) {
  Door door;
  Client owner(door);
  owner.Init();
  const uint64_t key = owner.session_id, number = door.last->description().id.value;
  EXPECT_TRUE(TestClient::StatusOf(owner.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(owner.Store(1, kBytes).ok());
  EXPECT_EQ(*owner.Read(1, 2), kBytes);
  Client stranger(door);
  stranger.session_id = number;
  EXPECT_FALSE(stranger.Lookup(2).ok());
  EXPECT_FALSE(stranger.Delete(2).ok());
  EXPECT_FALSE(stranger.Store(3, kBytes).ok());
  EXPECT_EQ(*owner.Lookup(2), kBytes);
  EXPECT_NE(key, number);
}

TEST(FrontDoorTest, StopEndsSessionsAtOnce) {
  FrontDoorOptions options;
  options.stop_grace_ms = 60000;  // not to be waited for
  Door door(options);
  Client client(door);
  client.Init();
  door.door->Stop();
  IfrtResponse response;
  EXPECT_FALSE(client.stream->Read(&response));
  EXPECT_EQ(client.stream->Finish().error_message(), "the server is stopping");
  client.finished = true;
}

TEST(FrontDoorTest, PortInUseIsASentence) {
  Door door;
  FrontDoorOptions options;
  options.port = door.door->port();
  auto second = FrontDoor::Start(options, door.controller);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(std::string(second.status().message()).find("is in use by another program"), std::string::npos)
      << second.status();
  options.port = 70000;
  EXPECT_FALSE(FrontDoor::Start(options, door.controller).ok());
}

TEST(FrontDoorTest, AnAgentServesItsSessionOnTheSamePort) {
  Door door;
  Client client(door);
  IfrtRequest init;
  init.mutable_init_request();
  const IfrtResponse described = client.Call(init);
  const auto& attributes = described.init_response().all_devices(0).attributes().attributes();
  const std::string token = attributes.at("switchtower_agent").string_value();
  std::string body;

  AgentSocket stranger(door.door->port());
  stranger.Send(1, R"({"version": 1, "token": "51:00"})");
  EXPECT_EQ(stranger.Receive(&body), 2u);
  EXPECT_NE(body.find("no session here has this token"), std::string::npos) << body;
  EXPECT_EQ(stranger.Receive(&body), 0u);
  AgentSocket silent(door.door->port());  // holds nobody up

  AgentSocket agent(door.door->port());
  agent.Send(1, fmt::format(R"({{"version": 1, "token": "{}"}})", token));
  EXPECT_EQ(agent.Receive(&body), 2u);
  EXPECT_EQ(body.find("error"), std::string::npos) << body;

  ClientCall call;
  call.callback = 3;
  call.operands = call.results = {Shape{DType::kS32, {1}}};
  call.data = std::make_shared<const std::string>("1234");
  std::promise<absl::StatusOr<std::shared_ptr<const std::string>>> answered;
  call.answer = [&](absl::StatusOr<std::shared_ptr<const std::string>> answer) {
    answered.set_value(std::move(answer));
  };
  door.last->calls()->OnCall(std::move(call));
  EXPECT_EQ(agent.Receive(&body), 3u);
  EXPECT_NE(body.find(R"("callback":"3")"), std::string::npos) << body;
  EXPECT_EQ(body.substr(body.size() - 4), "1234");
  agent.Send(4, R"({"call": 1})", "5678");
  EXPECT_EQ(**answered.get_future().get(), "5678");

  agent.Send(7, R"({"request": 9})");
  EXPECT_EQ(agent.Receive(&body), 8u);
  EXPECT_NE(body.find(R"("bytesInUse":"4096")"), std::string::npos) << body;
  // The session's end is the agent's.
  client.context.TryCancel();
  EXPECT_EQ(agent.Receive(&body), 0u);
}

TEST(FrontDoorTest, UploadsFromDisk) {
  char directory[] = "/tmp/st_upload_XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  FrontDoorOptions options;
  options.shared_upload_dir = directory;
  Door door(options);
  Client client(door);
  client.Init();
  auto from_disk = [&](uint64_t handle, int64_t size) {
    grpc::ClientContext context;
    GrpcHostBufferReadFromDiskRequest request;
    request.mutable_metadata()->set_session_id(client.session_id);
    request.mutable_metadata()->set_handle(handle);
    request.mutable_metadata()->set_buffer_size(size);
    GrpcHostBufferReadFromDiskResponse response;
    return door.stub->HostBufferReadFromDisk(&context, request, &response);
  };
  const std::string path = std::string(directory) + "/lt_1";
  std::ofstream(path) << kBytes;
  EXPECT_EQ(from_disk(1, 17).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_TRUE(from_disk(1, 16).ok());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_EQ(*client.Read(1, 2), kBytes);
  EXPECT_FALSE(from_disk(9, 16).ok());
  ASSERT_EQ(symlink("/etc/passwd", (std::string(directory) + "/lt_3").c_str()), 0);
  EXPECT_EQ(from_disk(3, 16).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  unlink((std::string(directory) + "/lt_3").c_str());
  // A second name could lead to a file of somebody else's, too.
  const std::string other_name = std::string(directory) + "/mine", linked = std::string(directory) + "/lt_4";
  std::ofstream(other_name) << kBytes;
  ASSERT_EQ(link(other_name.c_str(), linked.c_str()), 0);
  EXPECT_EQ(from_disk(4, 16).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(access(linked.c_str(), F_OK), 0);
  unlink(linked.c_str());
  unlink(other_name.c_str());
  ASSERT_EQ(mkfifo(linked.c_str(), 0600), 0);
  EXPECT_EQ(from_disk(4, 0).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  unlink(linked.c_str());
  // The client's name for large handles.
  const std::string wrapped = std::string(directory) + "/lt_-2147483641";
  std::ofstream(wrapped) << kBytes;
  EXPECT_TRUE(from_disk((uint64_t{1} << 31) + 7, 16).ok());
  EXPECT_NE(access(wrapped.c_str(), F_OK), 0);
  rmdir(directory);

  Door without;
  Client other(without);
  other.Init();
  grpc::ClientContext context;
  GrpcHostBufferReadFromDiskRequest request;
  request.mutable_metadata()->set_session_id(other.session_id);
  GrpcHostBufferReadFromDiskResponse response;
  EXPECT_EQ(without.stub->HostBufferReadFromDisk(&context, request, &response).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace switchtower
