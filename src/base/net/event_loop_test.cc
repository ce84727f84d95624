#include "base/net/event_loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <future>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using std::chrono::milliseconds;

class Counter : public EventLoop::FdHandler {
 public:
  explicit Counter(int fd) : fd_(fd) {}
  void OnReady(uint32_t) override {
    char c;
    ASSERT_EQ(::read(fd_, &c, 1), 1);
    if (++count == 3) done.set_value();
  }
  int fd_;
  int count = 0;
  std::promise<void> done;
};

TEST(EventLoop, RunsTasksInOrderAndAllOfThemBeforeStop) {
  auto loop = EventLoop::Create("test").value();
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(loop->Post([&seen, i] { seen.push_back(i); }));
  loop->Stop();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], i);
  EXPECT_FALSE(loop->Post([] { FAIL() << "ran after Stop"; }));
}

TEST(EventLoop, PosterOutlivesTheLoop) {
  auto loop = EventLoop::Create("test").value();
  EventLoop::Poster poster = loop->poster();
  std::promise<void> ran;
  EXPECT_TRUE(poster.Post([&] { ran.set_value(); }));
  ran.get_future().get();
  loop.reset();
  EXPECT_FALSE(poster.Post([] {}));
}

TEST(EventLoop, TellsReadableDescriptors) {
  auto loop = EventLoop::Create("test").value();
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
  UniqueFd reader(fds[0]), writer(fds[1]);
  Counter counter(reader.get());
  EventLoop::Registration registration;
  loop->RunAndWait([&] { registration = loop->Add(reader.get(), EPOLLIN, &counter).value(); });
  ASSERT_EQ(::write(writer.get(), "abc", 3), 3);
  counter.done.get_future().get();
  loop->RunAndWait([&] { loop->Remove(registration); });
  ASSERT_EQ(::write(writer.get(), "d", 1), 1);
  loop->RunAndWait([] {});
  EXPECT_EQ(counter.count, 3);
}

TEST(EventLoop, TimersRunInOrderAndCanBeCancelled) {
  auto loop = EventLoop::Create("test").value();
  std::promise<void> done;
  std::vector<int> seen;
  loop->RunAndWait([&] {
    loop->RunAfter(milliseconds(4), [&] {
      seen.push_back(3);
      done.set_value();
    });
    loop->RunAfter(milliseconds(1), [&] { seen.push_back(1); });
    const auto cancelled = loop->RunAfter(milliseconds(2), [&] { seen.push_back(2); });
    loop->Cancel(cancelled);
  });
  done.get_future().get();
  EXPECT_EQ(seen, (std::vector<int>{1, 3}));
}

TEST(EventLoop, RunAndWaitWorksOnTheLoopItselfAndAfterStop) {
  auto loop = EventLoop::Create("test").value();
  int count = 0;
  loop->RunAndWait([&] { loop->RunAndWait([&] { ++count; }); });
  loop->Stop();
  loop->RunAndWait([&] { ++count; });
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace switchtower
