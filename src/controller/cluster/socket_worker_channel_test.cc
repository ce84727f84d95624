// The channel against a peer that speaks the worker's side of the protocol, over loopback and unix sockets.
#include "controller/cluster/socket_worker_channel.h"

#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/net/address.h"
#include "base/net/framed_connection.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;

// Answers one hello and keeps what it gets.
class Peer : public FramedConnection::Handler {
 public:
  explicit Peer(WorkerHelloReply reply) : reply_(std::move(reply)) {}
  void OnFrame(Frame frame) override {
    if (frame.type == static_cast<uint32_t>(WorkerFrame::kHello)) {
      hello.set_value(*DecodeHello(frame.body.view()));
      if (silent) return;
      connection->Send(static_cast<uint32_t>(WorkerFrame::kHelloReply), Payload(EncodeHelloReply(reply_)))
          .IgnoreError();
      // Before the controller's first command.
      SendEvent(WorkerStats{.launches = 3});
      return;
    }
    MutexLock lock(mutex);
    commands.push_back(*DecodeCommand(frame.body.view()));
    changed.NotifyAll();
  }
  void OnClosed(absl::Status) override { closed.set_value(); }
  void SendEvent(const WorkerEvent& event) {
    Payload body(EncodeEventHead(event));
    if (auto payload = EventPayload(event)) body.Append(payload);
    connection->Send(static_cast<uint32_t>(WorkerFrame::kEvent), std::move(body)).IgnoreError();
  }
  WorkerCommand Await(size_t count) {
    MutexLock lock(mutex);
    while (commands.size() < count) changed.Wait(mutex);
    return commands[count - 1];
  }

  bool silent = false;
  std::shared_ptr<FramedConnection> connection;
  std::promise<ControllerHello> hello;
  std::promise<void> closed;
  Mutex mutex;
  CondVar changed;
  std::vector<WorkerCommand> commands GUARDED_BY(mutex);

 private:
  const WorkerHelloReply reply_;
};

class SocketChannelTest : public ::testing::Test {
 protected:
  SocketChannelTest() : loop(*EventLoop::Create("peer")), client_loop(*EventLoop::Create("client")) {
    reply.worker = WorkerId{5};
  }
  ~SocketChannelTest() override {
    client_loop->Stop();
    loop->RunAndWait([this] { listener.reset(); });
    loop->Stop();
  }
  void Listen(const Address& address) {
    peer = std::make_shared<Peer>(reply);
    peer->silent = silent;
    loop->RunAndWait([&] {
      listener = *Listener::Create(*loop, address, [this](UniqueFd socket) {
        peer->connection = FramedConnection::Create(*loop, std::move(socket), {}, peer);
      });
    });
  }
  absl::StatusOr<std::unique_ptr<WorkerChannel>> Connect(std::vector<std::string> addresses) {
    SocketConnector connector({{client_loop.get()},
                               [] { return std::string("cluster"); },
                               "test",
                               std::chrono::milliseconds(500),
                               std::chrono::milliseconds(1)});
    WorkerConnectRequest request;
    request.worker.id = WorkerId{5};
    request.worker.command_addresses = std::move(addresses);
    request.secret = "secret";
    request.home_epoch = 9;
    std::promise<absl::StatusOr<std::unique_ptr<WorkerChannel>>> done;
    connector.Connect(
        request, [&](absl::StatusOr<std::unique_ptr<WorkerChannel>> channel) { done.set_value(std::move(channel)); });
    return done.get_future().get();
  }

  WorkerHelloReply reply;
  bool silent = false;
  std::unique_ptr<EventLoop> loop, client_loop;
  std::unique_ptr<Listener> listener;
  std::shared_ptr<Peer> peer;
};

TEST_F(SocketChannelTest, CommandsAndEventsKeepTheirOrder) {
  Listen(Address::UniqueAbstract("st-channel-test"));
  auto channel = Connect({"nonsense", listener->address().ToString()});
  ASSERT_TRUE(channel.ok()) << channel.status().ToString();
  const ControllerHello hello = peer->hello.get_future().get();
  EXPECT_EQ(hello.worker, WorkerId{5});
  EXPECT_EQ(hello.lease_secret, "secret");
  EXPECT_EQ(hello.home_epoch, 9u);
  // Large enough to fill any socket.
  auto data = std::make_shared<const std::string>(std::string(8 << 20, 'x'));
  (*channel)->Send(std::make_shared<const SharedCommand>(StreamChunk{StreamId{1}, data, true, 1, {}}));
  for (uint64_t i = 1; i <= 100; ++i) {
    (*channel)->Send(std::make_shared<const SharedCommand>(DropGang{GangId{i}}));
  }
  EXPECT_EQ(std::get<StreamChunk>(peer->Await(1)).data->size(), data->size());
  EXPECT_EQ(std::get<DropGang>(peer->Await(101)).gang, GangId{100});
  // What came before Start isn't lost.
  std::promise<WorkerEvent> first, second;
  std::promise<absl::Status> closed;
  int events = 0;
  (*channel)->Start({[&](WorkerEvent event) { (++events == 1 ? first : second).set_value(std::move(event)); },
                     [&](absl::Status why) { closed.set_value(std::move(why)); }});
  EXPECT_EQ(std::get<WorkerStats>(first.get_future().get()).launches, 3u);
  peer->SendEvent(ReadData{RequestId{7}, data, true, absl::OkStatus()});
  EXPECT_EQ(std::get<ReadData>(second.get_future().get()).data->size(), data->size());
  peer->connection->Close();
  EXPECT_FALSE(closed.get_future().get().ok());
  (*channel)->Send(std::make_shared<const SharedCommand>(DropGang{GangId{1}}));  // a no-op now
}

TEST_F(SocketChannelTest, WhatNobodyWaitsForGoesWithTheNextCommandOrAfterAnEvent) {
  Listen(Address::UniqueAbstract("st-channel-test"));
  auto channel = Connect({listener->address().ToString()});
  ASSERT_TRUE(channel.ok()) << channel.status().ToString();
  const auto send = [&](uint64_t gang, WorkerChannel::When when) {
    (*channel)->Send(std::make_shared<const SharedCommand>(DropGang{GangId{gang}}), when);
  };
  (*channel)->Start({[](WorkerEvent) {}, [](absl::Status) {}});
  send(1, WorkerChannel::When::kWithNext);
  send(2, WorkerChannel::When::kNow);
  EXPECT_EQ(std::get<DropGang>(peer->Await(2)).gang, GangId{2});
  EXPECT_EQ(std::get<DropGang>(peer->Await(1)).gang, GangId{1});
  send(3, WorkerChannel::When::kWithNext);
  peer->SendEvent(WorkerStats{.launches = 4});
  EXPECT_EQ(std::get<DropGang>(peer->Await(3)).gang, GangId{3});
}

TEST_F(SocketChannelTest, TheEndReachesThePeer) {
  Listen(Address::Tcp("127.0.0.1", 0));
  auto channel = Connect({listener->address().ToString()});
  ASSERT_TRUE(channel.ok()) << channel.status().ToString();
  channel->reset();
  peer->closed.get_future().get();
}

TEST_F(SocketChannelTest, RefusalsSayWhy) {
  reply.status = absl::UnauthenticatedError("no such lease");
  Listen(Address::Tcp("127.0.0.1", 0));
  EXPECT_THAT(std::string(Connect({listener->address().ToString()}).status().message()), HasSubstr("no such lease"));
  EXPECT_THAT(std::string(Connect({}).status().message()), HasSubstr("no command address"));
}

TEST_F(SocketChannelTest, AnotherWorkerIsNotAccepted) {
  reply.worker = WorkerId{6};
  Listen(Address::Tcp("127.0.0.1", 0));
  EXPECT_THAT(std::string(Connect({listener->address().ToString()}).status().message()), HasSubstr("another worker"));
}

TEST_F(SocketChannelTest, ASilentPeerIsGivenUp) {
  silent = true;
  Listen(Address::Tcp("127.0.0.1", 0));
  EXPECT_THAT(std::string(Connect({listener->address().ToString()}).status().message()),
              HasSubstr("doesn't answer the hello"));
}

}  // namespace
}  // namespace switchtower
