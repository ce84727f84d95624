#include "base/net/framed_connection.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <future>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/net/address.h"
#include "base/net/frame_header.h"

namespace switchtower {
namespace {

using testing::HasSubstr;
using Options = FramedConnection::Options;
using When = FramedConnection::When;

struct Received {
  uint32_t type;
  std::string body;
  std::vector<UniqueFd> fds;
};

class Recorder : public FramedConnection::Handler {
 public:
  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    frames_.push_back({frame.type, std::string(frame.body.view()), std::move(frame.fds)});
    changed_.NotifyAll();
  }
  void OnClosed(absl::Status why) override {
    MutexLock lock(mutex_);
    closed_.push_back(std::move(why));
    changed_.NotifyAll();
  }
  void OnQueueDrained() override {
    MutexLock lock(mutex_);
    ++drained_;
    changed_.NotifyAll();
  }
  std::vector<Received> AwaitFrames(size_t count) {
    MutexLock lock(mutex_);
    while (frames_.size() < count) changed_.Wait(mutex_);
    return std::move(frames_);
  }
  absl::Status AwaitClosed() {
    MutexLock lock(mutex_);
    while (closed_.empty()) changed_.Wait(mutex_);
    return closed_.front();
  }
  void AwaitDrained() {
    MutexLock lock(mutex_);
    while (drained_ == 0) changed_.Wait(mutex_);
  }
  size_t closed_count() {
    MutexLock lock(mutex_);
    return closed_.size();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Received> frames_;
  std::vector<absl::Status> closed_;
  int drained_ = 0;
};

struct End {
  std::shared_ptr<Recorder> handler = std::make_shared<Recorder>();
  std::shared_ptr<FramedConnection> connection;
};

class FramedConnectionTest : public testing::Test {
 protected:
  ~FramedConnectionTest() override {
    for (End* end : {&a_, &b_}) {
      if (end->connection == nullptr) continue;
      end->connection->Close();
      (void)end->handler->AwaitClosed();
    }
    loop_->Stop();
  }
  void Open(Options a = {}, Options b = {}) {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a_.connection = FramedConnection::Create(*loop_, UniqueFd(fds[0]), a, a_.handler);
    b_.connection = FramedConnection::Create(*loop_, UniqueFd(fds[1]), b, b_.handler);
  }
  // One framed end and a bare socket.
  UniqueFd OpenHalf(Options a = {}) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a_.connection = FramedConnection::Create(*loop_, UniqueFd(fds[0]), a, a_.handler);
    return UniqueFd(fds[1]);
  }

  std::unique_ptr<EventLoop> loop_ = EventLoop::Create("test").value();
  End a_, b_;
};

TEST_F(FramedConnectionTest, CarriesFramesOfAllSizesInOrder) {
  Open();
  const std::vector<size_t> sizes = {0, 1, 100, 4096, 4097, 16384, 16385, 300'000, 5'000'000, 3, 0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(a_.connection->Send(i, Payload(std::string(sizes[i], 'a' + i))).ok());
  }
  auto frames = b_.handler->AwaitFrames(sizes.size());
  ASSERT_EQ(frames.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(frames[i].type, i);
    EXPECT_EQ(frames[i].body, std::string(sizes[i], 'a' + i));
  }
}

TEST_F(FramedConnectionTest, ManyThreadsKeepTheirOwnOrder) {
  Open();
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        FramedConnection::SendOptions options;
        options.when = i % 3 == 0 ? When::kSoon : i % 3 == 1 ? When::kFlush : When::kNow;
        ASSERT_TRUE(a_.connection->Send(t, Payload::View(std::to_string(i)), std::move(options)).ok());
      }
      a_.connection->Flush();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> next(kThreads, 0);
  for (const Received& frame : b_.handler->AwaitFrames(kThreads * kEach)) {
    EXPECT_EQ(frame.body, std::to_string(next[frame.type]++));
  }
}

TEST_F(FramedConnectionTest, BothDirectionsAtOnceWithBackPressure) {
  Open();
  const auto body = std::make_shared<const std::string>(3'000'000, 'x');
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(a_.connection->Send(1, Payload(body)).ok());
    ASSERT_TRUE(b_.connection->Send(2, Payload(body)).ok());
  }
  for (const auto& frame : b_.handler->AwaitFrames(10)) EXPECT_EQ(frame.body, *body);
  for (const auto& frame : a_.handler->AwaitFrames(10)) EXPECT_EQ(frame.body, *body);
}

TEST_F(FramedConnectionTest, LetsOwnersGoWhenWritten) {
  Open();
  auto body = std::make_shared<const std::string>(1'000'000, 'x');
  std::weak_ptr<const std::string> watch = body;
  std::promise<absl::Status> written;
  FramedConnection::SendOptions options;
  options.on_written = [&](absl::Status status) { written.set_value(status); };
  ASSERT_TRUE(a_.connection->Send(1, Payload(std::exchange(body, nullptr)), std::move(options)).ok());
  EXPECT_TRUE(written.get_future().get().ok());
  EXPECT_TRUE(watch.expired());
  b_.handler->AwaitFrames(1);
  EXPECT_EQ(a_.connection->queued_bytes(), 0u);
}

TEST_F(FramedConnectionTest, PassesDescriptors) {
  Open();
  UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(memory.get(), "shared", 6), 6);
  FramedConnection::SendOptions options;
  options.fds.push_back(std::move(memory));
  ASSERT_TRUE(a_.connection->Send(1, Payload(std::string("before"))).ok());
  ASSERT_TRUE(a_.connection->Send(2, Payload(std::string("with")), std::move(options)).ok());
  ASSERT_TRUE(a_.connection->Send(3, Payload(std::string("after"))).ok());
  auto frames = b_.handler->AwaitFrames(3);
  EXPECT_TRUE(frames[0].fds.empty());
  EXPECT_TRUE(frames[2].fds.empty());
  ASSERT_EQ(frames[1].fds.size(), 1u);
  char text[6];
  ASSERT_EQ(::pread(frames[1].fds[0].get(), text, 6, 0), 6);
  EXPECT_EQ(std::string(text, 6), "shared");
}

TEST_F(FramedConnectionTest, AFullQueueRefusesAndTellsWhenItIsDrained) {
  Options options;
  options.queue_bytes_max = 1'000'000;
  UniqueFd peer = OpenHalf(options);  // nobody reads
  const auto body = std::make_shared<const std::string>(400'000, 'x');
  int taken = 0;
  absl::Status status;
  while ((status = a_.connection->Send(1, Payload(body))).ok()) ++taken;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(taken, 3);
  EXPECT_LE(taken, 4);
  std::string buffer(taken * (400'000 + sizeof(FrameHeader)), '\0');
  ASSERT_EQ(::recv(peer.get(), buffer.data(), buffer.size(), MSG_WAITALL), ssize_t(buffer.size()));
  a_.handler->AwaitDrained();
  EXPECT_TRUE(a_.connection->Send(1, Payload(std::string("again"))).ok());
}

TEST_F(FramedConnectionTest, TellsTheEndOfThePeerAndFailsWhatIsQueued) {
  UniqueFd peer = OpenHalf();
  std::promise<absl::Status> written;
  FramedConnection::SendOptions options;
  options.on_written = [&](absl::Status status) { written.set_value(status); };
  ASSERT_TRUE(a_.connection->Send(1, Payload(std::string(10'000'000, 'x')), std::move(options)).ok());
  peer.reset();
  EXPECT_EQ(a_.handler->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(written.get_future().get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a_.connection->Send(1, Payload()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FramedConnectionTest, CloseWhenWrittenDeliversWhatWasQueued) {
  Open();
  ASSERT_TRUE(a_.connection->Send(1, Payload(std::string(5'000'000, 'x'))).ok());
  ASSERT_TRUE(a_.connection->Send(2, Payload(std::string("bye"))).ok());
  a_.connection->CloseWhenWritten();
  auto frames = b_.handler->AwaitFrames(2);
  EXPECT_EQ(frames[1].body, "bye");
  EXPECT_TRUE(a_.handler->AwaitClosed().ok());
  EXPECT_THAT(std::string(b_.handler->AwaitClosed().message()), HasSubstr("peer closed"));
  EXPECT_EQ(a_.handler->closed_count(), 1u);
}

TEST_F(FramedConnectionTest, NonsenseClosesTheConnection) {
  const FrameHeader too_large{FrameHeader::kMagic, 1, uint64_t{1} << 40};
  const FrameHeader missing_fd{FrameHeader::kMagic, 1u << 24 | 1, 0};
  const std::string http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const std::string& bytes : {http, std::string(reinterpret_cast<const char*>(&too_large), sizeof(FrameHeader)),
                                   std::string(reinterpret_cast<const char*>(&missing_fd), sizeof(FrameHeader))}) {
    a_ = End();
    UniqueFd peer = OpenHalf();
    ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), 0), ssize_t(bytes.size()));
    const absl::Status why = a_.handler->AwaitClosed();
    EXPECT_EQ(why.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(why.message()), HasSubstr("nonsense"));
  }
}

TEST_F(FramedConnectionTest, AcceptsFramesByteByByteAndNoticesATornOne) {
  UniqueFd peer = OpenHalf();
  const std::string body(40'000, 'q');
  const FrameHeader header{FrameHeader::kMagic, 7, body.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += body;
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(::send(peer.get(), &bytes[i], 1, 0), 1);
    loop_->RunAndWait([] {});
  }
  ASSERT_EQ(::send(peer.get(), &bytes[64], bytes.size() - 64, 0), ssize_t(bytes.size() - 64));
  EXPECT_EQ(a_.handler->AwaitFrames(1)[0].body, body);
  ASSERT_EQ(::send(peer.get(), bytes.data(), 20, 0), 20);
  peer.reset();
  EXPECT_THAT(std::string(a_.handler->AwaitClosed().message()), HasSubstr("middle of a frame"));
}

}  // namespace
}  // namespace switchtower
