// When the door stops reading a client's stream, over real gRPC.
#include <thread>

#include <gtest/gtest.h>

#include "frontdoor/read_gate.h"
#include "frontdoor/testing_door.h"

namespace switchtower {
namespace {

// Returns once `progress` has come to `least` and gets no further.
template <typename Progress>
void AwaitStandstill(Progress progress, int64_t least) {
  for (int64_t before = -1, now = progress(); now < least || now != before;) {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    now = progress();
  }
}

// What the door has handled, not what the client has sent: how much of that is on the way is gRPC's and the kernel's.
void AwaitHandledStandstill(const Door& door, int64_t least) {
  AwaitStandstill([&] { return static_cast<int64_t>(door.last->array_calls()); }, least);
}

// The client keeps a thread for each of its uploads.
TEST(DoorFlowTest, UploadsToWaitForStopTheReading) {
  Door door;
  Client client(door);
  client.Init();
  constexpr int kArrays = 3000;
  std::thread writer([&] {
    for (int i = 1; i <= kArrays; ++i) client.Post(TestClient::MakeArray(i, kVector, TestClient::Replicated({0})));
  });
  AwaitHandledStandstill(door, 50);
  EXPECT_LT(door.last->array_calls(), kArrays / 2);
  for (int i = 1; i <= kArrays; ++i) EXPECT_TRUE(client.Store(i, kBytes).ok());
  for (int i = 1; i <= kArrays; ++i) EXPECT_TRUE(TestClient::StatusOf(client.Next()).ok());
  writer.join();
}

TEST(DoorFlowTest, AnswersThatNobodyReadsStopTheReading) {
  FrontDoorOptions options;
  options.unread_answer_bytes_max = 16 << 10;
  Door door(options);
  Client client(door);
  client.Init();
  IfrtRequest request;
  request.mutable_destruct_array_request()->add_array_handle(1000);
  constexpr int kRequests = 10000;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) client.Post(request);
  });
  AwaitHandledStandstill(door, 100);
  EXPECT_LT(door.last->array_calls(), kRequests / 2);
  for (int i = 0; i < kRequests; ++i) EXPECT_FALSE(TestClient::StatusOf(client.Next()).ok());
  writer.join();
}

TEST(DoorFlowTest, DownloadsThatNobodyFetchesStopTheReading) {
  FrontDoorOptions options;
  constexpr int64_t kArrayBytes = 64 << 10;
  options.download_bytes_max = 2 * kArrayBytes;
  Door door(options);
  Client client(door);
  client.Init();
  const Shape shape{DType::kU8, {kArrayBytes}};
  EXPECT_TRUE(TestClient::StatusOf(client.Call(TestClient::MakeArray(1, shape, TestClient::Replicated({0})))).ok());
  EXPECT_TRUE(client.Store(1, std::string(kArrayBytes, 'x')).ok());
  constexpr int kReads = 1000;
  std::thread writer([&] {
    for (int i = 0; i < kReads; ++i) {
      IfrtRequest request;
      request.mutable_copy_to_host_buffer_request()->set_array_handle(1);
      request.mutable_copy_to_host_buffer_request()->set_host_buffer_handle(1000 + i);
      client.Post(request);
    }
  });
  AwaitStandstill([&] { return door.door->counts().download_bytes; }, options.download_bytes_max);
  // What was read before the stop is handled.
  EXPECT_LE(door.door->counts().download_bytes, (2 + static_cast<int64_t>(ReadGate::Limits().requests)) * kArrayBytes);
  for (int i = 0; i < kReads; ++i) {
    EXPECT_TRUE(TestClient::StatusOf(client.Next()).ok());
    EXPECT_EQ(client.Lookup(1000 + i)->size(), static_cast<size_t>(kArrayBytes));
    EXPECT_TRUE(client.Delete(1000 + i).ok());
  }
  writer.join();
}

}  // namespace
}  // namespace switchtower
