#include "base/net/socket_pump.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

// Two peers with a pump between them.
class SocketPumpTest : public testing::Test {
 protected:
  SocketPumpTest() {
    auto [a, a_end] = Pair();
    auto [b, b_end] = Pair();
    one = std::move(a);
    other = std::move(b);
    loop = *EventLoop::Create("test");
    loop->RunAndWait([&, a_end = std::move(a_end), b_end = std::move(b_end)]() mutable {
      pump = *SocketPump::Create(*loop, std::move(a_end), std::move(b_end), [this] {
        pump = nullptr;
        ended.set_value();
      });
    });
  }
  ~SocketPumpTest() override {
    loop->RunAndWait([this] { pump = nullptr; });
  }
  // A blocking end and a nonblocking one.
  static std::pair<UniqueFd, UniqueFd> Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  static void Write(const UniqueFd& fd, const std::string& bytes) {
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  static std::string Read(const UniqueFd& fd, size_t size) {
    std::string bytes(size, '\0');
    const ssize_t n = recv(fd.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
  }

  UniqueFd one, other;
  std::promise<void> ended;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<SocketPump> pump;  // the loop's thread
};

TEST_F(SocketPumpTest, MovesBothWaysAtOnce) {
  std::string there(20 << 20, '\0'), back(10 << 20, '\0');
  for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<char>(i * 31 + i / 4096);
  for (size_t i = 0; i < back.size(); ++i) back[i] = static_cast<char>(i * 17 + i / 1024);
  std::thread forth([&] { Write(one, there); });
  std::thread home([&] { Write(other, back); });
  auto got_back = std::async(std::launch::async, [&] { return Read(one, back.size()); });
  EXPECT_TRUE(Read(other, there.size()) == there);
  EXPECT_TRUE(got_back.get() == back);
  forth.join();
  home.join();
}

TEST_F(SocketPumpTest, WhoDoesntReadIsntReadFor) {
  fcntl(one.get(), F_SETFL, O_NONBLOCK);
  const std::string chunk(64 * 1024, 'x');
  size_t written = 0;
  for (int still = 0; still < 20;) {  // until nothing has gone out for a while
    const ssize_t n = send(one.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL);
    still = n > 0 ? 0 : still + 1;
    written += n > 0 ? static_cast<size_t>(n) : 0;
    loop->RunAndWait([] {});
  }
  // Four socket buffers and the pump's own; the kernel says how large its own are.
  int socket_buffer = 0;
  socklen_t size = sizeof(socket_buffer);
  getsockopt(one.get(), SOL_SOCKET, SO_SNDBUF, &socket_buffer, &size);
  EXPECT_LE(written, 4 * static_cast<size_t>(socket_buffer) + SocketPump::kBufferBytes);
  EXPECT_EQ(Read(other, written), std::string(written, 'x'));
}

TEST_F(SocketPumpTest, WhatWasSentBeforeTheEndArrives) {
  Write(one, "last words");
  one.reset();
  EXPECT_EQ(Read(other, 100), "last words");
  ended.get_future().get();
}

TEST_F(SocketPumpTest, TheReadersEndIsTheWritersToo) {
  other.reset();
  ended.get_future().get();
  EXPECT_EQ(Read(one, 1), "");
}

}  // namespace
}  // namespace switchtower
