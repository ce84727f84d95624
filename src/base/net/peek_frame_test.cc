#include "base/net/peek_frame.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include <gtest/gtest.h>

#include "base/net/address.h"
#include "base/net/unique_fd.h"

namespace switchtower {
namespace {

constexpr size_t kMax = 4096;

std::string Frame(char type, std::string body) {
  std::string frame = "SWF1";
  frame += std::string{type, 0, 0, 0};
  const uint64_t size = body.size();
  frame.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return frame + body;
}

// A TCP connection, as those that are looked at: low-water marks are a matter of TCP.
struct Pair {
  Pair() {
    const ListenSocket listener = *Listen(Address::Tcp("127.0.0.1", 0));
    writer = *ConnectAndWait(listener.address, std::chrono::seconds(10));
    pollfd ready{listener.fd.get(), POLLIN, 0};
    poll(&ready, 1, -1);
    reader = UniqueFd(accept(listener.fd.get(), nullptr, nullptr));
  }
  // Waits until it has come.
  void Send(const std::string& bytes) {
    sent += bytes.size();
    EXPECT_EQ(send(writer.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    std::string seen(sent, '\0');
    while (recv(reader.get(), seen.data(), sent, MSG_PEEK) != static_cast<ssize_t>(sent)) continue;
  }
  bool Readable() const {
    pollfd ready{reader.get(), POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }
  UniqueFd writer, reader;
  size_t sent = 0;
};

TEST(PeekFrame, LooksWithoutTaking) {
  Pair pair;
  const std::string bytes = Frame(3, "hello") + "more";
  pair.Send(bytes);
  for (int i = 0; i < 2; ++i) {
    const auto frame = PeekFrame(pair.reader.get(), kMax);
    ASSERT_TRUE(frame.ok() && frame->has_value()) << frame.status();
    EXPECT_EQ((*frame)->type, 3u);
    EXPECT_EQ((*frame)->body, "hello");
  }
  std::string all(bytes.size(), '\0');
  EXPECT_EQ(recv(pair.reader.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  EXPECT_EQ(all, bytes);
}

TEST(PeekFrame, WakesItsPollerWhenTheRestIsThere) {
  Pair pair;
  const std::string bytes = Frame(1, std::string(100, 'b'));
  EXPECT_EQ(*PeekFrame(pair.reader.get(), kMax), std::nullopt);
  for (size_t end : {4, 16, 50}) {
    pair.Send(bytes.substr(pair.sent, end - pair.sent));
    EXPECT_EQ(*PeekFrame(pair.reader.get(), kMax), std::nullopt);
    EXPECT_FALSE(pair.Readable()) << end;
  }
  pair.Send(bytes.substr(pair.sent));
  EXPECT_TRUE(pair.Readable());
  EXPECT_EQ((**PeekFrame(pair.reader.get(), kMax)).body, std::string(100, 'b'));
  EXPECT_TRUE(pair.Readable());
}

TEST(PeekFrame, APeerThatEndsWakesToo) {
  Pair pair;
  pair.Send("SWF1");
  EXPECT_EQ(*PeekFrame(pair.reader.get(), kMax), std::nullopt);
  pair.writer.reset();
  pollfd ready{pair.reader.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 10000), 1);
}

TEST(PeekFrame, RefusesWhatIsNoFrameOrTooLarge) {
  Pair nonsense, large;
  nonsense.Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(PeekFrame(nonsense.reader.get(), kMax).status().code(), absl::StatusCode::kInvalidArgument);
  large.Send(Frame(1, std::string(kMax + 1, 'x')));
  EXPECT_EQ(PeekFrame(large.reader.get(), kMax).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace switchtower
