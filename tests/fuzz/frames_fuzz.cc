// The bytes of a framed connection, as a socket delivers them: whole, in pieces, with frames that lie about their
// length. The first byte of the input says where the pieces end.
//
// The connection ends exactly once (F-1), and what it hands on are the bytes that came.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "base/net/event_loop.h"
#include "base/net/framed_connection.h"

namespace switchtower::fuzz {
namespace {

constexpr uint64_t kBodyMax = 1 << 20;

class Receiver final : public FramedConnection::Handler {
 public:
  void OnFrame(Frame frame) override {
    CHECK(frame.body.size() <= kBodyMax);
    const size_t size = frame.body.size();
    const std::shared_ptr<char> kept = std::move(frame.body).Take();
    CHECK(size == 0 || std::memchr(kept.get(), 0, size) != kept.get() + size);  // reads every byte
    bytes_ += size;
  }
  void OnClosed(absl::Status) override { closed_.set_value(bytes_); }
  std::future<size_t> closed() { return closed_.get_future(); }

 private:
  size_t bytes_ = 0;
  std::promise<size_t> closed_;  // throws if it is set twice
};

void Write(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    if (n <= 0) return;  // the other side has closed
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const size_t piece = 1 + static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  static EventLoop& loop = *EventLoop::Create("fuzz")->release();
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  auto receiver = std::make_shared<Receiver>();
  std::future<size_t> closed = receiver->closed();
  FramedConnection::Options options;
  options.body_bytes_max = kBodyMax;
  auto connection = FramedConnection::Create(loop, UniqueFd(sockets[0]), options, receiver);
  for (size_t at = 0; at < input.size(); at += piece) Write(sockets[1], input.substr(at, piece));
  close(sockets[1]);
  CHECK(closed.get() <= input.size());
}

}  // namespace
}  // namespace switchtower::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  switchtower::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
