// What only the fabric over sockets has; the contract of all fabrics is in fabric_test.cc.
#include "transport/socket_fabric.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/net/address.h"
#include "base/net/frame_header.h"
#include "base/net/framed_connection.h"
#include "transport/testing_fabric.h"
#include "transport/wire.h"

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::unique_ptr<FabricWorker> SocketWorker(uint64_t id, SocketFabricOptions options) {
  return std::make_unique<FabricWorker>(SocketFabric::Create(std::move(options)).value(), id);
}

TEST(SocketFabric, TakesTheExpectedPath) {
  for (const FabricMode mode : {FabricMode::kAuto, FabricMode::kShm, FabricMode::kTcp}) {
    auto a = SocketWorker(1, TestOptions(mode)), b = SocketWorker(2, TestOptions(mode));
    a->fabric->SetPeers(TableOf(*b, "s"));
    b->fabric->SetPeers(TableOf(*a, "s"));
    a->Post(*b, 1, Payload(std::string(100, 'x')));
    a->Post(*b, 2, Payload(std::string(100'000, 'x')));
    b->Await(2);
    const FabricStats sent = a->fabric->stats(), received = b->fabric->stats();
    const bool tcp = mode == FabricMode::kTcp;
    EXPECT_EQ(sent.tcp.bytes_sent, tcp ? 100'100u : 0u);
    EXPECT_EQ(sent.unix_socket.bytes_sent, tcp ? 0u : 100u);
    EXPECT_EQ(sent.shm.bytes_sent, tcp ? 0u : 100'000u);
    EXPECT_EQ(received.shm.bytes_received, sent.shm.bytes_sent);
    EXPECT_EQ(received.tcp.bytes_received, sent.tcp.bytes_sent);
  }
}

TEST(SocketFabric, FallsBackToTcpWhereTheUnixSocketIsOutOfReach) {
  auto a = SocketWorker(1, TestOptions(FabricMode::kAuto));
  auto b = SocketWorker(2, TestOptions(FabricMode::kAuto));
  PeerTable table = TableOf(*b, "s");
  table[b->id].addresses[0] = Address::UniqueAbstract("nobody").ToString();
  a->fabric->SetPeers(table);
  b->fabric->SetPeers(TableOf(*a, "s"));
  a->Post(*b, 1, Payload(std::string("x")));
  b->Await(1);
  EXPECT_EQ(a->fabric->stats().tcp.messages_sent, 1u);
}

TEST(SocketFabric, ShmOnlyRefusesAnotherHost) {
  auto a = SocketWorker(1, TestOptions(FabricMode::kShm));
  auto b = SocketWorker(2, TestOptions(FabricMode::kShm));
  PeerTable table = TableOf(*b, "s");
  table[b->id].host_id = "elsewhere";
  a->fabric->SetPeers(table);
  const absl::Status status = a->Send(*b, 1, Payload(std::string("x"))).get();
  EXPECT_THAT(std::string(status.message()), HasSubstr("another host"));
}

TEST(SocketFabric, RefusesAnotherClusterAndAnotherBuild) {
  SocketFabricOptions cluster = TestOptions(FabricMode::kTcp), build = cluster;
  cluster.cluster_id = "other";
  build.build = "other-build";
  for (const auto& [options, words] :
       {std::pair(cluster, "another cluster"), std::pair(build, "build \"test-build\"")}) {
    auto a = SocketWorker(1, TestOptions(FabricMode::kTcp)), b = SocketWorker(2, options);
    a->fabric->SetPeers(TableOf(*b, "s"));
    b->fabric->SetPeers(TableOf(*a, "s"));
    const absl::Status status = a->Send(*b, 1, Payload(std::string("x"))).get();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
}

TEST(SocketFabric, AnEarlierLeasesSecretStillOpens) {
  auto a = SocketWorker(1, TestOptions(FabricMode::kAuto));
  auto b = SocketWorker(2, TestOptions(FabricMode::kAuto));
  a->fabric->SetPeers(TableOf(*b, "lease 1"));
  b->fabric->SetPeers(TableOf(*a, "lease 1"));
  b->fabric->SetPeers(TableOf(*a, "lease 2"));
  EXPECT_TRUE(a->Send(*b, 1, Payload(std::string("x"))).get().ok());
}

TEST(SocketFabric, TellsThatAnAddressCannotBeListenedOn) {
  SocketFabricOptions options = TestOptions(FabricMode::kTcp);
  options.listen = "tcp:127.0.0.1:99999";
  EXPECT_FALSE(SocketFabric::Create(options).ok());
}

std::string FrameOf(uint32_t type, std::string_view body) {
  const FrameHeader header{FrameHeader::kMagic, type, body.size()};
  return std::string(transport_wire::AsBytes(header)) + std::string(body);
}

// Sends bytes to b's listener and waits until b has hung up.
void Attack(const FabricWorker& b, const std::string& bytes) {
  const PeerEndpoint endpoint = b.fabric->endpoint();
  for (const std::string& text : endpoint.addresses) {
    auto socket = ConnectAndWait(Address::Parse(text).value(), milliseconds(5000));
    ASSERT_TRUE(socket.ok()) << socket.status();
    (void)::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    // Nonblocking until here; wait for the end.
    const int flags = ::fcntl(socket->get(), F_GETFL);
    ::fcntl(socket->get(), F_SETFL, flags & ~O_NONBLOCK);
    char buffer[4096];
    while (::recv(socket->get(), buffer, sizeof(buffer), 0) > 0) {
    }
  }
}

TEST(SocketFabric, GarbageOnThePortsHarmsNobody) {
  auto a = SocketWorker(1, TestOptions(FabricMode::kAuto));
  auto b = SocketWorker(2, TestOptions(FabricMode::kAuto));
  a->fabric->SetPeers(TableOf(*b, "s"));
  b->fabric->SetPeers(TableOf(*a, "s"));
  ASSERT_TRUE(a->Send(*b, 1, Payload(std::string("x"))).get().ok());
  transport_wire::Hello hello;
  hello.from = WorkerId{1};
  hello.to = WorkerId{2};
  hello.cluster_id = "test";
  hello.build = "test-build";
  hello.secret = "s";
  transport_wire::Hello old = hello, guess = hello;
  old.version = 999;
  guess.secret = "t";
  Attack(*b, "GET / HTTP/1.1\r\nHost: worker\r\n\r\n");
  Attack(*b, std::string(100'000, '\xff'));
  Attack(*b, FrameOf(transport_wire::kMessage, std::string(64, 'x')));
  Attack(*b, FrameOf(transport_wire::kHello, "short"));
  Attack(*b, FrameOf(transport_wire::kHello, std::string(24, '\xff')));
  Attack(*b, FrameOf(transport_wire::kHello, transport_wire::EncodeHello(old)));
  Attack(*b, FrameOf(transport_wire::kHello, transport_wire::EncodeHello(guess)));
  Attack(*b,
         FrameOf(transport_wire::kHello, transport_wire::EncodeHello(hello)).substr(0, 30) + std::string(1000, '\xff'));
  EXPECT_TRUE(a->Send(*b, 2, Payload(std::string("y"))).get().ok());
  EXPECT_EQ(b->Await(2).size(), 2u);
  EXPECT_EQ(a->lost_count() + b->lost_count(), 0u);
}

TEST(SocketFabric, NonsenseFromAKnownPeerLosesThatPeerOnly) {
  transport_wire::Hello hello;
  hello.from = WorkerId{1};
  hello.to = WorkerId{2};
  hello.cluster_id = "test";
  hello.build = "test-build";
  hello.secret = "s";
  const transport_wire::MessageHead huge{{}, uint64_t{1} << 60}, good{{}, 40'000};
  const transport_wire::RingMessage ring{{}, {0, 100}};
  for (const std::string& bytes :
       {FrameOf(99, ""), FrameOf(transport_wire::kMessage, "short"),
        FrameOf(transport_wire::kMessage, std::string(100'000, 'x')),
        FrameOf(transport_wire::kMessageHead, transport_wire::AsBytes(huge)),
        FrameOf(transport_wire::kMessageBody, std::string(40'000, 'x')),
        FrameOf(transport_wire::kMessageHead, transport_wire::AsBytes(good)) +
            FrameOf(transport_wire::kMessageBody, std::string(39'999, 'x')),
        FrameOf(transport_wire::kRingMessage, transport_wire::AsBytes(ring)), FrameOf(transport_wire::kRing, "")}) {
    auto b = SocketWorker(2, TestOptions(FabricMode::kTcp));
    auto c = SocketWorker(3, TestOptions(FabricMode::kTcp));
    PeerTable table = TableOf(*c, "s");
    table[WorkerId{1}] = PeerEndpoint{{}, "elsewhere", "s"};
    b->fabric->SetPeers(table);
    c->fabric->SetPeers(TableOf(*b, "s"));
    ASSERT_TRUE(c->Send(*b, 1, Payload(std::string("x"))).get().ok());
    b->Await(1);
    auto socket = ConnectAndWait(Address::Parse(b->fabric->endpoint().addresses[0]).value(), milliseconds(5000));
    ASSERT_TRUE(socket.ok());
    ::fcntl(socket->get(), F_SETFL, ::fcntl(socket->get(), F_GETFL) & ~O_NONBLOCK);
    const std::string greeting = FrameOf(transport_wire::kHello, transport_wire::EncodeHello(hello));
    ASSERT_EQ(::send(socket->get(), greeting.data(), greeting.size(), 0), ssize_t(greeting.size()));
    char welcome[16];
    ASSERT_EQ(::recv(socket->get(), welcome, sizeof(welcome), MSG_WAITALL), 16);
    (void)::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const auto [peer, why] = b->AwaitLost();
    EXPECT_EQ(peer.value, 1u);
    EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(c->Send(*b, 2, Payload(std::string("y"))).get().ok());
    EXPECT_EQ(b->Await(1)[0].bytes, "y");
  }
}

// Takes connections as worker 2 and gives bells, as often as it is told, before or after its welcome.
class BellGiver : public FramedConnection::Handler, public std::enable_shared_from_this<BellGiver> {
 public:
  BellGiver(EventLoop& loop, int before, int after) : loop_(loop), before_(before), after_(after) {}

  void Open(UniqueFd socket) {
    connection_ = FramedConnection::Create(loop_, std::move(socket), {}, shared_from_this());
  }
  void OnFrame(Frame frame) override {
    if (frame.type != transport_wire::kHello) return;
    transport_wire::Hello welcome;
    welcome.from = WorkerId{2};
    welcome.to = WorkerId{1};
    welcome.cluster_id = "test";
    welcome.build = "test-build";
    GiveBells(before_);
    (void)connection_->Send(transport_wire::kWelcome, Payload(transport_wire::EncodeHello(welcome)));
    GiveBells(after_);
  }
  void OnClosed(absl::Status) override {}

 private:
  void GiveBells(int count) {
    for (int i = 0; i < count; ++i) {
      FramedConnection::SendOptions options;
      for (int bell = 0; bell < 2; ++bell) options.fds.emplace_back(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
      (void)connection_->Send(transport_wire::kBells, Payload(), std::move(options));
    }
  }

  EventLoop& loop_;
  const int before_, after_;
  std::shared_ptr<FramedConnection> connection_;
};

// Each answer holds shared memory: a peer that rings for ever more must not get it.
TEST(SocketFabric, BellsComeOnceAndInTheirPlace) {
  for (const auto& [before, after] : {std::pair(0, 1), std::pair(1, 0), std::pair(0, 2)}) {
    auto loop = EventLoop::Create("test").value();
    auto giver = std::make_shared<BellGiver>(*loop, before, after);
    auto listener = Listener::Create(*loop, Address::UniqueAbstract("test"), [&giver](UniqueFd socket) {
                      giver->Open(std::move(socket));
                    }).value();
    {
      auto a = SocketWorker(1, TestOptions(FabricMode::kShm));
      a->fabric->SetPeers({{WorkerId{2}, {{listener->address().ToString()}, a->fabric->endpoint().host_id, "s"}}});
      a->fabric->Send(WorkerId{2}, MessageHeader{}, Payload(std::string("x")), nullptr);
      if (before == 0 && after == 1) {
        while (!a->fabric->TrySendFast(WorkerId{2}, MessageHeader{}, 0, [](char*) {})) std::this_thread::yield();
        EXPECT_EQ(a->lost_count(), 0u);
      } else {
        EXPECT_THAT(std::string(a->AwaitLost().second.message()), HasSubstr("bells"));
      }
    }
    listener = nullptr;
    loop->Stop();
  }
}

TEST(SocketFabric, OutrunningTheReceiverDelaysOnSent) {
  auto a = SocketWorker(1, TestOptions(FabricMode::kShm, 64 * 1024));
  auto fabric = SocketFabric::Create(TestOptions(FabricMode::kShm)).value();
  std::promise<void> go;
  std::shared_future<void> gate = go.get_future().share();
  std::promise<void> first_came;
  Fabric* receiver = fabric.get();
  auto b = std::make_unique<FabricWorker>(std::move(fabric), 2);
  int count = 0;
  receiver->SetReceiver([&, gate](WorkerId, const MessageHeader&, ReceivedBytes) {
    if (count++ == 0) first_came.set_value();
    gate.wait();
  });
  a->fabric->SetPeers(TableOf(*b, "s"));
  b->fabric->SetPeers(TableOf(*a, "s"));
  a->Post(*b, 0, Payload(std::string("first")));
  first_came.get_future().get();
  auto late = a->Send(*b, 1, Payload(std::string(1'000'000, 'x')));
  EXPECT_EQ(late.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(a->fabric->stats().queued_bytes, 1'000'000u);
  go.set_value();
  EXPECT_TRUE(late.get().ok());
  EXPECT_GT(a->fabric->stats().ring_full_waits, 0u);
  b->fabric->Stop();
}

}  // namespace
}  // namespace switchtower
