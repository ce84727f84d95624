#include "frontdoor/client_socket.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <string>

#include "base/check.h"
#include "frontdoor/client_sockets.h"
#include "gtest/gtest.h"
#include "xla/python/ifrt_proxy/common/grpc_ifrt_service.grpc.pb.h"

namespace switchtower {
namespace {

using std::chrono_literals::operator""ms;

// Two ends of a connection over loopback.
struct Connection {
  UniqueFd client, server;

  explicit Connection(int family = AF_INET) {
    UniqueFd listener(socket(family, SOCK_STREAM, 0));
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
    }
    if (bind(listener.get(), raw, size) != 0) return;  // this machine doesn't have the family
    CHECK(listen(listener.get(), 1) == 0 && getsockname(listener.get(), raw, &size) == 0);
    client = UniqueFd(socket(family, SOCK_STREAM, 0));
    CHECK(connect(client.get(), raw, size) == 0);
    server = UniqueFd(accept(listener.get(), nullptr, nullptr));
    CHECK(server.valid());
  }
  void Write(size_t bytes) const {
    const std::string data(bytes, 'x');
    CHECK(send(client.get(), data.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  }
  bool Readable(int within_ms) const {
    pollfd events{server.get(), POLLIN, 0};
    return poll(&events, 1, within_ms) == 1;
  }
};

class ClientSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *EventLoop::Create("test");
    socket_ = std::make_shared<ClientSocket>(*loop_, UniqueFd(dup(connection_.server.get())));
    socket_->AddSession();
  }
  // No ticks until Resume. The loop may come to it when the test is over.
  void HoldLoop() {
    loop_->Post([resumed = resumed_.get_future().share()] { resumed.wait(); });
  }
  void Resume() { resumed_.set_value(); }
  // Some requests in each tick for so long.
  void Requests(std::chrono::milliseconds time, bool go_on = true, int in_each = ClientSocket::kDense) {
    for (const auto end = now_ + time; now_ < end; now_ += 1ms) {
      for (int i = 0; i < in_each; ++i) socket_->OnRequest(go_on, now_);
    }
  }

  Connection connection_;
  std::unique_ptr<EventLoop> loop_;
  std::shared_ptr<ClientSocket> socket_;
  ClientSocket::Clock::time_point now_{std::chrono::hours(1)};
  std::promise<void> resumed_;
};

TEST_F(ClientSocketTest, RequestsOfOneThatRunsAheadGatherUntilTheTick) {
  HoldLoop();
  socket_->OnRequest(false, now_);
  Requests(15ms);
  connection_.Write(10);
  EXPECT_TRUE(connection_.Readable(5000));
  Requests(5ms);
  EXPECT_FALSE(connection_.Readable(0));
  Resume();
  EXPECT_TRUE(connection_.Readable(5000));
}

TEST_F(ClientSocketTest, ManyBytesWakeAtOnce) {
  HoldLoop();
  Requests(20ms);
  connection_.Write(10);
  EXPECT_FALSE(connection_.Readable(0));
  connection_.Write(ClientSocket::kGatherBytes);
  EXPECT_TRUE(connection_.Readable(5000));
  Resume();
}

TEST_F(ClientSocketTest, OneThatWaitsIsReadAtOnceFromThenOn) {
  HoldLoop();
  Requests(20ms);
  connection_.Write(10);
  EXPECT_FALSE(connection_.Readable(0));
  socket_->OnRequest(false, now_);
  EXPECT_TRUE(connection_.Readable(5000));
  Requests(15ms);
  EXPECT_TRUE(connection_.Readable(5000));
  Resume();
}

TEST_F(ClientSocketTest, FewRequestsArentWorthIt) {
  HoldLoop();
  Requests(40ms, true, ClientSocket::kDense - 1);
  connection_.Write(10);
  EXPECT_TRUE(connection_.Readable(5000));
  Resume();
}

TEST_F(ClientSocketTest, AnotherSessionOfTheConnectionMayWait) {
  HoldLoop();
  Requests(20ms);
  connection_.Write(10);
  EXPECT_FALSE(connection_.Readable(0));
  socket_->AddSession();
  EXPECT_TRUE(connection_.Readable(5000));
  Requests(20ms);
  EXPECT_TRUE(connection_.Readable(5000));
  socket_->RemoveSession();
  Requests(1ms);
  EXPECT_FALSE(connection_.Readable(0));
  Resume();
}

TEST_F(ClientSocketTest, GathersAgainAfterATick) {
  Requests(20ms);
  connection_.Write(10);
  EXPECT_TRUE(connection_.Readable(5000));  // ticks may have ended by now
  HoldLoop();
  Requests(1ms);
  EXPECT_FALSE(connection_.Readable(0));
  Resume();
  EXPECT_TRUE(connection_.Readable(5000));
}

TEST_F(ClientSocketTest, TheEndOfAConnectionIsntHeldBack) {
  HoldLoop();
  Requests(20ms);
  connection_.client.reset();
  EXPECT_TRUE(connection_.Readable(5000));
  Resume();
}

TEST_F(ClientSocketTest, NothingIsHeldBackOnceTheLoopHasStopped) {
  loop_->Stop();
  Requests(20ms);
  connection_.Write(10);
  EXPECT_TRUE(connection_.Readable(5000));
}

TEST(ClientSocketsTest, AreFoundByTheirPeersUntilTheyEnd) {
  auto loop = *EventLoop::Create("test");
  ClientSockets sockets(*loop);
  Connection connection, other;
  loop->RunAndWait([&] {
    sockets.Add(connection.server.get());
    sockets.Add(other.server.get());
  });
  const std::string peer = PeerOf(connection.server.get());
  EXPECT_EQ(peer.substr(0, 15), "ipv4:127.0.0.1:");
  std::shared_ptr<ClientSocket> found = sockets.Find(peer);
  ASSERT_NE(found, nullptr);
  EXPECT_NE(found, sockets.Find(PeerOf(other.server.get())));
  EXPECT_EQ(sockets.Find("ipv4:127.0.0.1:1"), nullptr);
  shutdown(connection.server.get(), SHUT_RDWR);  // as gRPC does
  while (sockets.Find(peer) != nullptr) std::this_thread::yield();
  EXPECT_EQ(sockets.size(), 1);
  char byte = 0;
  EXPECT_EQ(recv(connection.client.get(), &byte, 1, 0), 0);  // its peer sees the end, too
  loop->RunAndWait([&] { sockets.Clear(); });
  EXPECT_EQ(sockets.size(), 0);
}

// Tells what gRPC calls its caller.
class PeerService : public xla::ifrt::proxy::GrpcIfrtService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const xla::ifrt::proxy::GrpcGetVersionRequest*,
                                       xla::ifrt::proxy::GrpcGetVersionResponse*) override {
    peer.set_value(context->peer());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  std::promise<std::string> peer;
};

TEST(ClientSocketsTest, PeersHaveTheNamesThatGrpcGivesThem) {
  for (int family : {AF_INET, AF_INET6}) {
    Connection connection(family);
    if (!connection.server.valid()) continue;
    PeerService service;
    grpc::ServerBuilder builder;
    auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    fcntl(connection.server.get(), F_SETFL, O_NONBLOCK);
    fcntl(connection.client.get(), F_SETFL, O_NONBLOCK);
    const std::string peer = PeerOf(connection.server.get());
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = -1;
    parameters.fd = connection.server.release();
    acceptor->HandleNewConnection(&parameters);
    auto channel = grpc::CreateInsecureChannelFromFd("server", connection.client.release());
    grpc::ClientContext context;
    xla::ifrt::proxy::GrpcGetVersionResponse response;
    ASSERT_TRUE(xla::ifrt::proxy::GrpcIfrtService::NewStub(channel)->GetVersion(&context, {}, &response).ok());
    EXPECT_EQ(peer, service.peer.get_future().get());
    channel.reset();
    server->Shutdown();
  }
}

TEST(ClientSocketsTest, OtherSocketsHaveNone) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  UniqueFd one(pair[0]), two(pair[1]);
  EXPECT_EQ(PeerOf(one.get()), "");
  EXPECT_EQ(PeerOf(-1), "");
}

}  // namespace
}  // namespace switchtower
