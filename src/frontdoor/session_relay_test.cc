// Two doors over real gRPC: clients come to the one, their sessions are at the other.
#include "frontdoor/session_relay.h"

#include <future>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontdoor/metadata_keys.h"
#include "frontdoor/testing_door.h"
#include "types/home_door.h"

namespace switchtower {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status HomeAt(const Door& home) {
  return WithHomeDoor(absl::FailedPreconditionError("the home is elsewhere"),
                      fmt::format("127.0.0.1:{}", home.door->port()));
}

class SessionRelayTest : public testing::Test {
 protected:
  explicit SessionRelayTest(FrontDoorOptions options = {}) : home(options) {
    door.controller.open_error = HomeAt(home);
  }

  static IfrtRequest Init() {
    IfrtRequest request;
    request.mutable_init_request();
    return request;
  }
  static absl::Status StatusOf(const IfrtResponse& response) {
    return FromProto(response.response_metadata().status());
  }
  static std::string TokenOf(const IfrtResponse& init) {
    return init.init_response().all_devices(0).attributes().attributes().at("switchtower_agent").string_value();
  }

  Door home;
  Door door{{}, 8100};  // last: its relayed sessions end first
};

TEST_F(SessionRelayTest, AClientCantTellThatItsSessionIsElsewhere) {
  Client client(door);
  client.Init();
  EXPECT_EQ(home.door->counts().sessions, 1u);
  EXPECT_EQ(door.door->counts().sessions, 0u);
  EXPECT_EQ(door.door->counts().relayed, 1u);
  // The request first, then the upload.
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(client.Store(1, kBytes).ok());
  EXPECT_EQ(*client.Read(1, 2), kBytes);
  EXPECT_TRUE(client.Delete(2).ok());
  EXPECT_FALSE(client.Lookup(2).ok());
  // The upload first; several messages long.
  const Shape large{DType::kU8, {(5 << 20) + 5}};
  std::string bytes(large.dims[0], '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  EXPECT_TRUE(client.Store(3, bytes).ok());
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(3, large, TestClient::Replicated({1})))).ok());
  EXPECT_EQ(*client.Read(3, 4), bytes);
  // The home's errors are the client's.
  EXPECT_EQ(client.Store(5, kBytes, 20).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_FALSE(client.Read(99, 6).ok());
  GrpcHostBufferReadFromDiskRequest from_disk;
  from_disk.mutable_metadata()->set_session_id(client.session_id);
  GrpcHostBufferReadFromDiskResponse response;
  grpc::ClientContext context;
  EXPECT_THAT(door.stub->HostBufferReadFromDisk(&context, from_disk, &response).error_message(),
              HasSubstr("--shared-upload-dir"));
}

TEST_F(SessionRelayTest, AnswersKeepTheirNumbersAndOrder) {
  Client client(door);
  client.Init();
  IfrtRequest bad;
  bad.mutable_is_array_deleted_request()->set_array_handle(99999);
  constexpr uint64_t kArrays = 1000;  // with the others more requests than may be on the way at once
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kArrays; ++i) {
      EXPECT_TRUE(client.Store(i, kBytes).ok());
      client.Post(TestClient::MakeArray(i, kVector, TestClient::Replicated({0})));
      client.Post(bad);
    }
  });
  int64_t expected = 0;
  for (uint64_t i = 0; i < 2 * kArrays; ++i) {
    const IfrtResponse answer = client.Next();
    EXPECT_EQ(answer.response_metadata().op_id(), i + 2);  // Init was 1
    if (answer.has_make_array_from_host_buffer_response()) {
      EXPECT_EQ(answer.response_metadata().seq_num(), expected++);
    }
  }
  writer.join();
  EXPECT_EQ(expected, static_cast<int64_t>(kArrays));
}

TEST_F(SessionRelayTest, TheClientsEndIsTheHomesToo) {
  {
    Client cancels(door), closes(door);
    cancels.Init();
    closes.Init();
    EXPECT_EQ(home.door->counts().sessions, 2u);
    closes.stream->WritesDone();
    home.WaitForSessions(1);
  }
  home.WaitForSessions(0);
  while (door.door->counts().relayed != 0) std::this_thread::yield();
}

TEST_F(SessionRelayTest, SessionsOfBothDoorsAreApart) {
  Client near(home), far(door);
  near.Init();
  far.Init();
  EXPECT_NE(near.session_id, far.session_id);
  EXPECT_TRUE(TestClient::StatusOf(far.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(far.Store(1, kBytes).ok());
  EXPECT_FALSE(near.Read(1, 2).ok());
  EXPECT_EQ(*far.Read(1, 2), kBytes);
}

TEST_F(SessionRelayTest, ARefusalOfTheHomeIsTheFirstAnswer) {
  home.controller.open_error = absl::ResourceExhaustedError("no slice is free");
  Client client(door);
  const absl::Status refused = StatusOf(client.Call(Init()));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "no slice is free");
}

TEST_F(SessionRelayTest, TheHomesEndIsSaidToWhoWaitsAndToWhoAsksNext) {
  // An array whose bytes never come, and somebody who waits for it.
  Client waits(door), asks(door);
  asks.Init();
  waits.Init();
  EXPECT_TRUE(TestClient::StatusOf(waits.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  IfrtRequest ready;
  ready.mutable_check_value_ready_request()->add_value_handles(1);
  waits.Post(ready);
  home.door->Stop();
  while (door.door->counts().relayed != 0) std::this_thread::yield();
  const absl::Status told = StatusOf(waits.Next());
  EXPECT_FALSE(told.ok());
  const absl::Status next = StatusOf(asks.Call(Init()));
  EXPECT_EQ(next.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(next.message()),
              AllOf(HasSubstr("home of the shared slices, ended this session"), HasSubstr("the server is stopping")));
  asks.finished = true;
  EXPECT_EQ(asks.stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SessionRelayTest, SessionsThatLoseTheirSlicesHearItAndRelayedOnesGoOn) {
  Client far(door);
  far.Init();
  door.controller.open_error = absl::OkStatus();
  Client near(door);
  near.Init();
  door.door->EndSessions(absl::UnavailableError("the slices are others' now"));
  door.WaitForSessions(0);
  const absl::Status told = StatusOf(near.Call(Init()));
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(told.message(), "the slices are others' now");
  near.finished = true;
  EXPECT_EQ(near.stream->Finish().error_message(), "the slices are others' now");
  EXPECT_TRUE(TestClient::StatusOf(far.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  Client next(door);
  next.Init();
  EXPECT_EQ(door.door->counts().sessions, 1u);
}

TEST_F(SessionRelayTest, AHomeCantTakeAnotherSessionsNumber) {
  Client first(door);
  first.Init();
  Door liar;  // numbers its sessions as `home` does
  door.controller.open_error = HomeAt(liar);
  Client second(door);
  const absl::Status refused = StatusOf(second.Call(Init()));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("under the number of another"));
  liar.WaitForSessions(0);
  EXPECT_TRUE(first.Store(1, kBytes).ok());  // still the first one's
  EXPECT_EQ(door.door->counts().relayed, 1u);
}

TEST_F(SessionRelayTest, AHomeThatHasJustMovedIsAskedForOnceMore) {
  // Both believe that it is the other; then this door is the home.
  home.controller.open_error = HomeAt(door);
  door.controller.open_error = absl::OkStatus();
  door.controller.RefuseNext(HomeAt(home));
  Client client(door);
  client.Init();
  EXPECT_EQ(door.door->counts().sessions, 1u);
  EXPECT_EQ(door.door->counts().relayed, 0u);
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, kVector, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(client.Store(1, kBytes).ok());
  EXPECT_EQ(*client.Read(1, 2), kBytes);
}

TEST_F(SessionRelayTest, DoorsThatPointAtEachOtherDontRelayForEver) {
  home.controller.open_error = HomeAt(door);
  Client client(door);
  const absl::Status refused = StatusOf(client.Call(Init()));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it isn't the home any more"));
}

TEST_F(SessionRelayTest, AHomeThatCantBeReachedIsNamed) {
  const std::string address = "127.0.0.1:1";  // a port that a door had may be another's by now
  door.controller.open_error = WithHomeDoor(absl::FailedPreconditionError("elsewhere"), address);
  Client client(door);
  const absl::Status refused = StatusOf(client.Call(Init()));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(address));
  door.controller.open_error = WithHomeDoor(absl::FailedPreconditionError("elsewhere"), "unix:/nowhere");
  Client other(door);
  EXPECT_EQ(StatusOf(other.Call(Init())).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionRelayTest, AStreamThatIsMarkedIsToldItsSession) {
  grpc::ClientContext context;
  GrpcIfrtSessionMetadata metadata;
  metadata.mutable_version()->set_protocol_version(25);
  metadata.mutable_version()->set_ifrt_serdes_version_number(3);
  context.AddMetadata(kSessionMetadataKey, metadata.SerializeAsString());
  context.AddMetadata(kRelayedForKey, "ipv4:10.0.0.9:1");
  auto stream = home.stub->IfrtSession(&context);
  stream->WaitForInitialMetadata();
  const auto& told = context.GetServerInitialMetadata();
  ASSERT_EQ(told.count(kRelayedSessionKey), 1u);
  EXPECT_EQ(told.find(kRelayedSessionKey)->second, std::to_string(home.last->description().id.value));
  EXPECT_EQ(told.count(kRelayedBuffersKey), 1u);
  context.TryCancel();
  stream->Finish();
}

TEST_F(SessionRelayTest, AnAgentIsLedToItsSessionWhereverThatIs) {
  Client far(door);
  const std::string far_token = TokenOf(far.Call(Init()));
  door.controller.open_error = absl::OkStatus();
  Client near(door);  // its session is at the door itself
  const std::string near_token = TokenOf(near.Call(Init()));
  std::string body;
  AgentSocket neighbour(door.door->port());
  neighbour.Send(1, fmt::format(R"({{"version": 1, "token": "{}"}})", near_token));
  EXPECT_EQ(neighbour.Receive(&body), 2u);
  EXPECT_EQ(body.find("error"), std::string::npos) << body;

  AgentSocket stranger(door.door->port());
  stranger.Send(1, R"({"version": 1, "token": "5100:00"})");
  EXPECT_EQ(stranger.Receive(&body), 2u);
  EXPECT_THAT(body, HasSubstr("no session here has this token"));
  AgentSocket guesses(door.door->port());  // the session's number, but not its secret
  guesses.Send(1, fmt::format(R"({{"version": 1, "token": "{}:00"}})", far_token.substr(0, far_token.find(':'))));
  EXPECT_EQ(guesses.Receive(&body), 2u);
  EXPECT_THAT(body, HasSubstr("no session here has this token"));
  EXPECT_EQ(guesses.Receive(&body), 0u);

  AgentSocket agent(door.door->port());
  agent.Send(1, fmt::format(R"({{"version": 1, "token": "{}"}})", far_token));
  EXPECT_EQ(agent.Receive(&body), 2u);
  EXPECT_EQ(body.find("error"), std::string::npos) << body;
  ClientCall call;
  call.callback = 3;
  call.operands = call.results = {Shape{DType::kU8, {1 << 20}}};
  call.data = std::make_shared<const std::string>(1 << 20, 'q');
  std::promise<absl::StatusOr<std::shared_ptr<const std::string>>> answered;
  call.answer = [&](absl::StatusOr<std::shared_ptr<const std::string>> answer) {
    answered.set_value(std::move(answer));
  };
  home.last->calls()->OnCall(std::move(call));
  EXPECT_EQ(agent.Receive(&body), 3u);
  EXPECT_EQ(body.substr(body.size() - (1 << 20)), std::string(1 << 20, 'q'));
  agent.Send(4, R"({"call": 1})", std::string(1 << 20, 'r'));
  EXPECT_EQ(**answered.get_future().get(), std::string(1 << 20, 'r'));
  // The session's end is the agent's.
  far.context.TryCancel();
  EXPECT_EQ(agent.Receive(&body), 0u);
}

class SmallHomeTest : public SessionRelayTest {
 protected:
  static FrontDoorOptions Small() {
    FrontDoorOptions options;
    options.waiting_upload_bytes_max = 1 << 20;
    return options;
  }
  SmallHomeTest() : SessionRelayTest(Small()) {}
};

TEST_F(SmallHomeTest, AnUploadThatTheHomeDoesntTakeWaitsWithTheClient) {
  Client client(door);
  client.Init();
  constexpr int64_t kSize = 64 << 20;
  const Shape shape{DType::kU8, {kSize}};
  const std::string bytes(kSize, 'z');
  auto upload = std::async(std::launch::async, [&] { return client.Store(1, bytes); });
  while (home.door->counts().waiting_upload_bytes < (1 << 20)) std::this_thread::yield();
  EXPECT_EQ(upload.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_LT(home.door->counts().waiting_upload_bytes, 3 << 20);
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, shape, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(upload.get().ok());
  EXPECT_EQ(*client.Read(1, 2), bytes);
  // A session that ends lets go of uploads that wait.
  auto stuck = std::async(std::launch::async, [&] { return client.Store(3, bytes); });
  while (home.door->counts().waiting_upload_bytes < (1 << 20)) std::this_thread::yield();
  client.context.TryCancel();
  EXPECT_FALSE(stuck.get().ok());
}

}  // namespace
}  // namespace switchtower
