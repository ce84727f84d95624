// One suite for the contract of Fabric, run with each implementation and path.
#include "transport/fabric.h"

#include <functional>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/inprocess_fabric.h"
#include "transport/socket_fabric.h"
#include "transport/testing_fabric.h"

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct Variant {
  std::string name;
  std::function<std::unique_ptr<Fabric>(InProcessNetwork&)> make;
};

class FabricTest : public testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<FabricWorker> NewWorker(uint64_t id) {
    return std::make_unique<FabricWorker>(GetParam().make(network_), id);
  }
  static void Introduce(FabricWorker& a, FabricWorker& b, const std::string& secret = "s3cret") {
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
  for (FabricWorker* worker : {a.get(), b.get()}) {
    auto messages = worker->Await(50);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(messages[i].bytes == Pattern(i * 20'000, i));
  }
}

TEST_P(FabricTest, RepliesFromTheReceiverDoNotDeadlock) {
  auto a = std::make_unique<FabricWorker>(GetParam().make(network_), 1);
  auto fabric = GetParam().make(network_);
  Fabric* echo = fabric.get();
  auto b = std::make_unique<FabricWorker>(std::move(fabric), 2);
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

}  // namespace
}  // namespace switchtower
