#include "base/net/address.h"

#include <sys/socket.h>

#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(Address, ParsesAndFormats) {
  for (const std::string text :
       {"tcp:worker-3.pool:29001", "tcp:[::1]:80", "tcp::0", "unix:/run/x.sock", "unix-abstract:switchtower-w3"}) {
    auto address = Address::Parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(Address::Parse("localhost:29000")->ToString(), "tcp:localhost:29000");
}

TEST(Address, RefusesNonsense) {
  for (const std::string text : {"", "host", "tcp:host", "host:", "host:x", "host:70000", "host:1 ", "::1:80",
                                 "unix:relative", "unix:", "unix-abstract:"}) {
    EXPECT_EQ(Address::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Address, AbstractNamesDiffer) { EXPECT_NE(Address::UniqueAbstract("w").path, Address::UniqueAbstract("w").path); }

TEST(Listen, PicksAFreePortOfLoopback) {
  auto socket = Listen(Address::Parse("tcp::0").value());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(socket->address.host, "127.0.0.1");
  EXPECT_NE(socket->address.port, 0);
}

TEST(Listen, SaysThatAPortIsInUseAndWhatToDo) {
  auto first = Listen(Address::Tcp("127.0.0.1", 0)).value();
  auto second = Listen(first.address);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(std::to_string(first.address.port) +
                        " on 127.0.0.1 is in use by another program; stop that program or choose"));
}

TEST(Listen, ReplacesAStaleSocketFileButNotALiveOne) {
  const auto folder = std::filesystem::temp_directory_path() / ("st-test-" + RandomHex(8));
  std::filesystem::create_directory(folder);
  Address address;
  address.kind = Address::Kind::kUnix;
  address.path = folder / "socket";
  auto first = Listen(address);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(Listen(address).ok());
  first->fd.reset();  // as after kill -9: the file stays
  EXPECT_TRUE(Listen(address).ok());
  std::filesystem::remove_all(folder);
}

class ConnectTest : public testing::TestWithParam<std::string> {};

TEST_P(ConnectTest, ReachesAListener) {
  auto loop = EventLoop::Create("test").value();
  Address address = Address::Parse(GetParam()).value();
  if (address.is_unix()) address.path += RandomHex(8);
  std::promise<UniqueFd> accepted;
  auto listener = Listener::Create(*loop, address, [&](UniqueFd fd) { accepted.set_value(std::move(fd)); }).value();
  std::promise<absl::StatusOr<UniqueFd>> connected;
  loop->Post([&] {
    Connect(*loop, listener->address(), milliseconds(5000),
            [&](absl::StatusOr<UniqueFd> fd) { connected.set_value(std::move(fd)); });
  });
  auto fd = connected.get_future().get();
  ASSERT_TRUE(fd.ok()) << fd.status();
  UniqueFd peer = accepted.get_future().get();
  ASSERT_EQ(::send(fd->get(), "x", 1, 0), 1);
  loop->RunAndWait([] {});
  char c = 0;
  ASSERT_EQ(::recv(peer.get(), &c, 1, 0), 1);
  EXPECT_EQ(c, 'x');
}

TEST_P(ConnectTest, BlockingVariantToo) {
  Address address = Address::Parse(GetParam()).value();
  if (address.is_unix()) address.path += RandomHex(8);
  auto socket = Listen(address).value();
  EXPECT_TRUE(ConnectAndWait(socket.address, milliseconds(5000)).ok());
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConnectTest,
                         testing::Values("tcp:localhost:0", "tcp:127.0.0.1:0", "unix-abstract:st-test-"));

TEST(Connect, SaysThatNobodyListens) {
  auto loop = EventLoop::Create("test").value();
  const Address nobody = Address::Tcp("127.0.0.1", 1);  // a port that one had may be another's by now
  std::promise<absl::Status> result;
  loop->Post([&] {
    Connect(*loop, nobody, milliseconds(5000), [&](absl::StatusOr<UniqueFd> fd) { result.set_value(fd.status()); });
  });
  const absl::Status status = result.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing listens there"));
  EXPECT_FALSE(ConnectAndWait(nobody, milliseconds(5000)).ok());
}

TEST(Secrets, EqualOnlyIfEqual) {
  EXPECT_TRUE(SecretsEqual("abc", "abc"));
  EXPECT_FALSE(SecretsEqual("abc", "abd"));
  EXPECT_FALSE(SecretsEqual("abc", "ab"));
}

}  // namespace
}  // namespace switchtower
