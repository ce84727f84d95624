// One suite for the contract of Fabric, run with each implementation and path.
#include "transport/fabric.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/net/address.h"
#include "base/net/frame_header.h"
#include "transport/inprocess_fabric.h"
#include "transport/socket_fabric.h"
#include "transport/wire.h"

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct Message {
  WorkerId from;
  MessageHeader header;
  std::string bytes;
};

// A worker: its fabric and what came in.
class Worker {
 public:
  Worker(std::unique_ptr<Fabric> fabric, uint64_t id) : fabric(std::move(fabric)), id{id} {
    this->fabric->SetReceiver([this](WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
      MutexLock lock(mutex_);
      messages_.push_back({from, header, std::string(bytes.view())});
      changed_.NotifyAll();
    });
    this->fabric->SetPeerLostHandler([this](WorkerId peer, absl::Status why) {
      MutexLock lock(mutex_);
      lost_.emplace_back(peer, std::move(why));
      changed_.NotifyAll();
    });
    this->fabric->Start(this->id);
  }
  // Before what the callbacks touch goes.
  ~Worker() { fabric->Stop(); }

  std::vector<Message> Await(size_t count) {
    MutexLock lock(mutex_);
    while (messages_.size() < count) changed_.Wait(mutex_);
    return std::exchange(messages_, {});
  }
  std::pair<WorkerId, absl::Status> AwaitLost() {
    MutexLock lock(mutex_);
    while (lost_.empty()) changed_.Wait(mutex_);
    return lost_.front();
  }
  size_t lost_count() {
    MutexLock lock(mutex_);
    return lost_.size();
  }
  std::future<absl::Status> Send(const Worker& to, uint64_t tag, Payload payload) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    MessageHeader header;
    header.words[0] = tag;
    header.words[7] = ~tag;
    fabric->Send(to.id, header, std::move(payload),
                 [promise](absl::Status status) { promise->set_value(std::move(status)); });
    return promise->get_future();
  }
  void Post(const Worker& to, uint64_t tag, Payload payload) {
    MessageHeader header;
    header.words[0] = tag;
    header.words[7] = ~tag;
    fabric->Send(to.id, header, std::move(payload), nullptr);
  }

  std::unique_ptr<Fabric> fabric;
  const WorkerId id;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Message> messages_;
  std::vector<std::pair<WorkerId, absl::Status>> lost_;
};

PeerTable TableOf(const Worker& worker, const std::string& secret) {
  PeerEndpoint endpoint = worker.fabric->endpoint();
  endpoint.secret = secret;
  return {{worker.id, endpoint}};
}

SocketFabricOptions TestOptions(FabricMode mode, size_t ring_bytes = size_t{8} << 20) {
  SocketFabricOptions options;
  options.mode = mode;
  options.ring_bytes = ring_bytes;
  options.cluster_id = "test";
  options.build = "test-build";
  options.secret_grace = milliseconds(1);
  return options;
}

struct Variant {
  std::string name;
  std::function<std::unique_ptr<Fabric>(InProcessNetwork&)> make;
};

std::string Pattern(size_t size, int seed) {
  std::string bytes(size, static_cast<char>(seed));
  for (uint64_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t word = (i + seed) * 0x9e3779b97f4a7c15;
    __builtin_memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

class FabricTest : public testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<Worker> NewWorker(uint64_t id) { return std::make_unique<Worker>(GetParam().make(network_), id); }
  static void Introduce(Worker& a, Worker& b, const std::string& secret = "s3cret") {
    a.fabric->SetPeers(TableOf(b, secret));
    b.fabric->SetPeers(TableOf(a, secret));
  }

  InProcessNetwork network_;
};

TEST_P(FabricTest, CarriesMessagesOfAllSizesInOrder) {
  auto a = NewWorker(1), b = NewWorker(2);
  Introduce(*a, *b);
  const std::vector<size_t> sizes = {0,      1,      64,      4096,      16'384, 16'400,    32'767,
                                     32'768, 32'769, 100'000, 2'000'000, 5,      3'000'001, 0};
  std::vector<std::future<absl::Status>> sent;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sent.push_back(a->Send(*b, i, Payload(Pattern(sizes[i], i))));
  }
  auto messages = b->Await(sizes.size());
  ASSERT_EQ(messages.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(messages[i].from, a->id);
    EXPECT_EQ(messages[i].header.words[0], i);
    EXPECT_EQ(messages[i].header.words[7], ~uint64_t{i});
    EXPECT_TRUE(messages[i].bytes == Pattern(sizes[i], i)) << sizes[i];
    EXPECT_TRUE(sent[i].get().ok());
  }
  EXPECT_EQ(a->fabric->stats().queued_bytes, 0u);
}

TEST_P(FabricTest, SendsScatteredPiecesAsOne) {
  auto a = NewWorker(1), b = NewWorker(2);
  Introduce(*a, *b);
  auto owner = std::make_shared<const std::string>(Pattern(300'000, 1));
  Payload payload = Payload::View("head");
  payload.Append(std::string_view(*owner).substr(7, 200'000), owner);
  payload.Append("tail", nullptr);
  const std::string expected = payload.ToString();
  ASSERT_TRUE(a->Send(*b, 1, std::move(payload)).get().ok());
  EXPECT_TRUE(b->Await(1)[0].bytes == expected);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_P(FabricTest, CarriesALargePayload) {
  auto a = NewWorker(1), b = NewWorker(2);
  Introduce(*a, *b);
  auto bytes = std::make_shared<const std::string>(Pattern(size_t{64} << 20, 3));
  ASSERT_TRUE(a->Send(*b, 1, Payload(bytes)).get().ok());
  EXPECT_TRUE(b->Await(1)[0].bytes == *bytes);
}

TEST_P(FabricTest, ManySmallOnesFromManyThreadsKeepEachThreadsOrder) {
  auto a = NewWorker(1), b = NewWorker(2);
  Introduce(*a, *b);
  constexpr uint64_t kThreads = 3, kEach = 3000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // Now and then a large one, which must not be overtaken.
      for (uint64_t i = 0; i < kEach; ++i) {
        a->Post(*b, t << 32 | i, Payload(std::string(i % 500 == 0 ? 100'000 : 40, 'x')));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint64_t> next(kThreads, 0);
  for (const Message& message : b->Await(kThreads * kEach)) {
    const uint64_t tag = message.header.words[0];
    EXPECT_EQ(tag & 0xffffffff, next[tag >> 32]++);
  }
}

TEST_P(FabricTest, BothDirectionsAtOnce) {
  auto a = NewWorker(1), b = NewWorker(2);
  Introduce(*a, *b);
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) b->Post(*a, i, Payload(Pattern(i * 20'000, i)));
  });
  for (int i = 0; i < 50; ++i) a->Post(*b, i, Payload(Pattern(i * 20'000, i)));
  other.join();
  for (Worker* worker : {a.get(), b.get()}) {
    auto messages = worker->Await(50);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(messages[i].bytes == Pattern(i * 20'000, i));
  }
}

TEST_P(FabricTest, RepliesFromTheReceiverDoNotDeadlock) {
  auto a = std::make_unique<Worker>(GetParam().make(network_), 1);
  auto fabric = GetParam().make(network_);
  Fabric* echo = fabric.get();
  auto b = std::make_unique<Worker>(std::move(fabric), 2);
  echo->SetReceiver([echo](WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
    const size_t size = bytes.size();
    std::shared_ptr<char> owned = std::move(bytes).Take();
    echo->Send(from, header, Payload::Owned({owned.get(), size}, owned), nullptr);
  });
  Introduce(*a, *b);
  for (int i = 0; i < 100; ++i) a->Post(*b, i, Payload(Pattern(i * 3000, i)));
  auto messages = a->Await(100);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(messages[i].bytes == Pattern(i * 3000, i));
  b->fabric->Stop();
}

TEST_P(FabricTest, WritesLargePayloadsWhereTheBufferSourceSays) {
  auto a = NewWorker(1), b = NewWorker(2);
  // 5 MB: in pieces where the ring is small. 40 kB: in one piece.
  auto place = AllocateBytes(5'000'000), small_place = AllocateBytes(40'000);
  b->fabric->SetBufferSource(
      [&](WorkerId, const MessageHeader&, size_t size) { return size == 5'000'000 ? place : small_place; });
  Introduce(*a, *b);
  a->Post(*b, 1, Payload(Pattern(5'000'000, 1)));
  a->Post(*b, 2, Payload(Pattern(40'000, 2)));
  b->Await(2);
  EXPECT_TRUE(std::string_view(place.get(), 5'000'000) == Pattern(5'000'000, 1));
  EXPECT_TRUE(std::string_view(small_place.get(), 40'000) == Pattern(40'000, 2));
}

TEST_P(FabricTest, DeliversToItself) {
  auto a = NewWorker(1);
  EXPECT_TRUE(a->Send(*a, 9, Payload(Pattern(50'000, 9))).get().ok());
  EXPECT_TRUE(a->Await(1)[0].bytes == Pattern(50'000, 9));
}

TEST_P(FabricTest, AMessageWaitsForTheTableThatNamesItsSender) {
  auto a = NewWorker(1), b = NewWorker(2);
  a->fabric->SetPeers(TableOf(*b, "s"));
  a->Post(*b, 1, Payload(std::string("early")));
  b->fabric->SetPeers(TableOf(*a, "s"));
  EXPECT_EQ(b->Await(1)[0].bytes, "early");
}

TEST_P(FabricTest, ADeadPeerIsLostAndItsSendsFail) {
  auto a = NewWorker(1), b = NewWorker(2), c = NewWorker(3);
  Introduce(*a, *b);
  Introduce(*a, *c);
  a->Post(*b, 1, Payload(std::string("hello")));
  b->Await(1);
  b.reset();
  const auto [peer, why] = a->AwaitLost();
  EXPECT_EQ(peer.value, 2u);
  EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(why.message()), HasSubstr("worker 2 is lost"));
  MessageHeader header;
  std::promise<absl::Status> sent;
  a->fabric->Send(WorkerId{2}, header, Payload(std::string("anyone?")),
                  [&](absl::Status status) { sent.set_value(status); });
  EXPECT_EQ(sent.get_future().get().code(), absl::StatusCode::kDataLoss);
  // Nobody else is harmed.
  EXPECT_TRUE(a->Send(*c, 2, Payload(std::string("still here"))).get().ok());
  EXPECT_EQ(c->Await(1)[0].bytes, "still here");
  EXPECT_EQ(a->lost_count(), 1u);
  EXPECT_EQ(c->lost_count(), 0u);
}

TEST_P(FabricTest, AWrongSecretIsRefused) {
  auto a = NewWorker(1), b = NewWorker(2);
  a->fabric->SetPeers(TableOf(*b, "wrong"));
  b->fabric->SetPeers(TableOf(*a, "right"));
  // Refused when the hello is answered, so a socket's send fails then.
  const absl::Status status = a->Send(*b, 1, Payload(std::string(100, 'x'))).get();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_EQ(a->AwaitLost().second.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(b->fabric->stats().handshakes_refused, 1u);
  // With the right one all is well again.
  a->fabric->SetPeers(TableOf(*b, "right"));
  EXPECT_TRUE(a->Send(*b, 2, Payload(std::string("now"))).get().ok());
  EXPECT_EQ(b->Await(1)[0].bytes, "now");
}

TEST_P(FabricTest, AnUnknownPeerIsAnError) {
  auto a = NewWorker(1), b = NewWorker(2);
  EXPECT_EQ(a->Send(*b, 1, Payload(std::string("x"))).get().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(FabricTest, ARemovedPeerIsNoLoss) {
  auto a = NewWorker(1), b = NewWorker(2);
  Introduce(*a, *b);
  a->Post(*b, 1, Payload(std::string("x")));
  b->Post(*a, 1, Payload(std::string("y")));
  b->Await(1);
  a->Await(1);
  a->fabric->RemovePeer(b->id);
  EXPECT_EQ(a->Send(*b, 2, Payload(std::string("z"))).get().code(), absl::StatusCode::kFailedPrecondition);
  b->fabric->RemovePeer(a->id);
  // Named again, both talk again.
  Introduce(*a, *b, "another");
  a->Post(*b, 3, Payload(std::string("again")));
  EXPECT_EQ(b->Await(1)[0].bytes, "again");
  EXPECT_EQ(a->lost_count() + b->lost_count(), 0u);
}

TEST_P(FabricTest, StopFailsWhatIsQueuedOrDeliversIt) {
  auto a = NewWorker(1), b = NewWorker(2);
  a->fabric->SetPeers(TableOf(*b, "s"));  // b does not know a: nothing gets through
  auto sent = a->Send(*b, 1, Payload(std::string(1'000'000, 'x')));
  a->fabric->Stop();
  ASSERT_EQ(sent.wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

INSTANTIATE_TEST_SUITE_P(
    Paths, FabricTest,
    testing::Values(
        Variant{"InProcess", [](InProcessNetwork& network) { return network.NewEndpoint(); }},
        Variant{"Auto", [](InProcessNetwork&) { return SocketFabric::Create(TestOptions(FabricMode::kAuto)).value(); }},
        Variant{"Shm", [](InProcessNetwork&) { return SocketFabric::Create(TestOptions(FabricMode::kShm)).value(); }},
        Variant{"TinyRing",
                [](InProcessNetwork&) { return SocketFabric::Create(TestOptions(FabricMode::kShm, 32'768)).value(); }},
        Variant{"Tcp", [](InProcessNetwork&) { return SocketFabric::Create(TestOptions(FabricMode::kTcp)).value(); }}),
    [](const auto& info) { return info.param.name; });

// What only sockets have ------------------------------------------------------------------------------

std::unique_ptr<Worker> SocketWorker(uint64_t id, SocketFabricOptions options) {
  return std::make_unique<Worker>(SocketFabric::Create(std::move(options)).value(), id);
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
void Attack(const Worker& b, const std::string& bytes) {
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

TEST(SocketFabric, OutrunningTheReceiverDelaysOnSent) {
  auto a = SocketWorker(1, TestOptions(FabricMode::kShm, 64 * 1024));
  auto fabric = SocketFabric::Create(TestOptions(FabricMode::kShm)).value();
  std::promise<void> go;
  std::shared_future<void> gate = go.get_future().share();
  std::promise<void> first_came;
  Fabric* receiver = fabric.get();
  auto b = std::make_unique<Worker>(std::move(fabric), 2);
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
