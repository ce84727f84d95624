#include "frontdoor/host_buffer_store.h"

#include <optional>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

HostBuffer::Chunk Chunk(const std::string& bytes) { return std::make_shared<const std::string>(bytes); }

struct Consumer {
  std::string bytes;
  std::optional<absl::Status> end;
  void Attach(HostBuffer& buffer) {
    buffer.Consume([this](HostBuffer::Chunk chunk) { bytes += *chunk; },
                   [this](absl::Status status) {
                     EXPECT_FALSE(end.has_value());
                     end = status;
                   });
  }
};

TEST(HostBufferStoreTest, UploadFirst) {
  HostBufferStore store(100);
  auto upload = store.BeginUpload(5, 6);
  ASSERT_TRUE(upload.ok());
  (*upload)->Append(Chunk("abc"));
  (*upload)->Append(Chunk("def"));
  EXPECT_GE(store.counts().waiting_bytes, 6);
  EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());
  auto buffer = store.Take(5, 6);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(store.counts().waiting_bytes, 0);
  Consumer consumer;
  consumer.Attach(**buffer);
  EXPECT_EQ(consumer.bytes, "abcdef");
  EXPECT_TRUE(consumer.end->ok());
  EXPECT_EQ(store.counts().buffers, 0u);
}

TEST(HostBufferStoreTest, RequestFirstAndChunksFlow) {
  HostBufferStore store(100);
  auto buffer = store.Take(5, 6);
  ASSERT_TRUE(buffer.ok());
  Consumer consumer;
  consumer.Attach(**buffer);
  auto upload = store.BeginUpload(5, 6);
  ASSERT_TRUE(upload.ok());
  (*upload)->Append(Chunk("abc"));
  EXPECT_EQ(consumer.bytes, "abc");
  EXPECT_FALSE(consumer.end.has_value());
  (*upload)->Append(Chunk("def"));
  EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());
  EXPECT_EQ(consumer.bytes, "abcdef");
  EXPECT_TRUE(consumer.end->ok());
}

TEST(HostBufferStoreTest, CountsWhatWasTakenAndIsntHere) {
  HostBufferStore store(100);
  auto early = store.BeginUpload(1, 0);
  EXPECT_TRUE((*early)->Finish(absl::OkStatus()).ok());
  ASSERT_TRUE(store.Take(1, 0).ok());
  EXPECT_EQ(store.awaited(), 0u);
  ASSERT_TRUE(store.Take(2, 3).ok());
  ASSERT_TRUE(store.Take(3, 3).ok());
  auto flowing = store.BeginUpload(2, 3);
  (*flowing)->Append(Chunk("abc"));
  EXPECT_EQ(store.awaited(), 2u);
  int fewer = 0;
  store.WhenFewerAwaited(3, [&] { ++fewer; });
  EXPECT_EQ(fewer, 1);
  store.WhenFewerAwaited(1, [&] { ++fewer; });
  EXPECT_TRUE((*flowing)->Finish(absl::OkStatus()).ok());
  EXPECT_EQ(store.awaited(), 1u);
  EXPECT_EQ(fewer, 1);
  auto last = store.BeginUpload(3, 3);
  EXPECT_FALSE((*last)->Finish(absl::CancelledError("gone")).ok());
  EXPECT_EQ(store.awaited(), 0u);
  EXPECT_EQ(fewer, 2);
  ASSERT_TRUE(store.Take(4, 3).ok());
  store.WhenFewerAwaited(1, [&] { ++fewer; });
  store.Close(absl::CancelledError("the end"));
  EXPECT_EQ(fewer, 3);
  EXPECT_EQ(store.awaited(), 0u);
}

TEST(HostBufferStoreTest, EmptyBufferIsNoMessageAtAll) {
  HostBufferStore store(100);
  auto upload = store.BeginUpload(5, 0);
  EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());
  Consumer consumer;
  consumer.Attach(**store.Take(5, 0));
  EXPECT_TRUE(consumer.end->ok());
}

TEST(HostBufferStoreTest, FewerOrMoreBytesThanAnnouncedAreDataLoss) {
  for (const std::string& bytes : {std::string("abc"), std::string("abcdefg")}) {
    HostBufferStore store(100);
    Consumer consumer;
    consumer.Attach(**store.Take(5, 6));
    auto upload = store.BeginUpload(5, 6);
    (*upload)->Append(Chunk(bytes));
    EXPECT_EQ((*upload)->Finish(absl::OkStatus()).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(consumer.end->code(), absl::StatusCode::kDataLoss);
  }
}

TEST(HostBufferStoreTest, WrongSizeForTheArray) {
  for (bool upload_first : {false, true}) {
    HostBufferStore store(100);
    Consumer consumer;
    if (!upload_first) consumer.Attach(**store.Take(5, 8));
    auto upload = store.BeginUpload(5, 6);
    (*upload)->Append(Chunk("abcdef"));
    EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());  // the transfer itself was right
    if (upload_first) consumer.Attach(**store.Take(5, 8));
    EXPECT_EQ(consumer.end->code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(consumer.bytes, "");
  }
}

TEST(HostBufferStoreTest, HandlesAreUsedOnce) {
  HostBufferStore store(100);
  EXPECT_FALSE(store.BeginUpload(0, 1).ok());
  EXPECT_FALSE(store.BeginUpload(1, -1).ok());
  auto upload = store.BeginUpload(5, 6);
  EXPECT_FALSE(store.BeginUpload(5, 6).ok());
  EXPECT_TRUE(store.Take(5, 6).ok());
  EXPECT_FALSE(store.Take(5, 6).ok());
  EXPECT_FALSE(store.BeginUpload(5, 6).ok());
  EXPECT_TRUE(store.Take(6, 6).ok());
  EXPECT_FALSE(store.Take(6, 6).ok());
  (*upload)->Finish(absl::CancelledError("")).IgnoreError();
}

TEST(HostBufferStoreTest, UploadsWaitForRoomUnlessTaken) {
  HostBufferStore store(4);
  auto first = store.BeginUpload(1, 8);
  auto second = store.BeginUpload(2, 8);
  int first_reads = 0, second_reads = 0;
  (*first)->Append(Chunk("aaaa"));
  (*first)->WhenRoom([&] { ++first_reads; });
  (*second)->Append(Chunk("bbbb"));
  (*second)->WhenRoom([&] { ++second_reads; });
  EXPECT_EQ(first_reads + second_reads, 0);
  auto taken = store.Take(1, 8);
  EXPECT_EQ(first_reads, 1);
  EXPECT_EQ(second_reads, 0);  // its own four bytes fill the bound
  (*first)->Append(Chunk("aaaa"));
  (*first)->WhenRoom([&] { ++first_reads; });
  EXPECT_EQ(first_reads, 2);
  auto other = store.Take(2, 8);
  EXPECT_EQ(second_reads, 1);
  (*first)->Finish(absl::OkStatus()).IgnoreError();
  (*second)->Finish(absl::CancelledError("")).IgnoreError();
}

// A wait may hold its own upload (FileUpload does): once it is over, nothing of it may stay with the buffer.
TEST(HostBufferStoreTest, AWaitThatIsOverHoldsNothing) {
  HostBufferStore store(200);
  auto waiting = store.BeginUpload(1, 8);
  auto other = store.BeginUpload(2, 4);
  (*waiting)->Append(Chunk("aa"));
  (*other)->Append(Chunk("bbbb"));
  auto held = std::make_shared<int>(0);
  (*waiting)->WhenRoom([held] { ++*held; });
  ASSERT_TRUE(store.Take(2, 4).ok());
  EXPECT_EQ(*held, 1);
  EXPECT_EQ(held.use_count(), 1);
  (*waiting)->Finish(absl::CancelledError("")).IgnoreError();
  (*other)->Finish(absl::OkStatus()).IgnoreError();
}

TEST(HostBufferStoreTest, CloseEndsEveryWait) {
  HostBufferStore store(4);
  Consumer early, late;
  early.Attach(**store.Take(1, 8));
  auto upload = store.BeginUpload(2, 8);
  late.Attach(**store.Take(2, 8));
  auto blocked = store.BeginUpload(3, 8);
  (*blocked)->Append(Chunk("cccc"));
  bool resumed = false;
  (*blocked)->WhenRoom([&] { resumed = true; });
  store.Close(absl::CancelledError("client left"));
  EXPECT_EQ(early.end->code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.end->code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(resumed);
  EXPECT_EQ((*upload)->Finish(absl::OkStatus()).code(), absl::StatusCode::kCancelled);
  (*blocked)->Append(Chunk("cccc"));
  EXPECT_FALSE((*blocked)->Finish(absl::OkStatus()).ok());
  EXPECT_FALSE(store.Take(4, 8).ok());
  EXPECT_FALSE(store.BeginUpload(4, 8).ok());
  EXPECT_FALSE(store.Put(4, {Chunk("x")}).ok());
}

TEST(HostBufferStoreTest, WhatComesAfterCloseIsNotHeld) {
  HostBufferStore store(1 << 20);
  auto upload = store.BeginUpload(1, 8);
  ASSERT_TRUE(upload.ok());
  store.Close(absl::CancelledError("session has ended"));
  (*upload)->Append(std::make_shared<const std::string>("12345678"));
  EXPECT_EQ(store.counts().waiting_bytes, 0);
  EXPECT_FALSE((*upload)->Finish(absl::OkStatus()).ok());
}

TEST(HostBufferStoreTest, ARefusedUploadLeavesNothing) {
  HostBufferStore store(1 << 20);
  ASSERT_TRUE(store.Take(1, 8).ok());
  auto upload = store.BeginUpload(1, 8);
  ASSERT_TRUE(upload.ok());
  EXPECT_FALSE(store.BeginUpload(1, 8).ok());  // the first one flows
  EXPECT_EQ(store.counts().buffers, 1u);
  EXPECT_FALSE((*upload)->Finish(absl::OkStatus()).ok());
  EXPECT_EQ(store.counts().buffers, 0u);
}

TEST(HostBufferStoreTest, DiscardedBuffersGoNowhere) {
  HostBufferStore store(100);
  store.Discard(1);
  auto upload = store.BeginUpload(1, 3);
  (*upload)->Append(Chunk("abc"));
  EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());
  EXPECT_EQ(store.counts().waiting_bytes, 0);
  EXPECT_EQ(store.counts().buffers, 0u);
}

TEST(HostBufferStoreTest, BytesThatAreCutSmallAreCountedAsWhatTheyTake) {
  HostBufferStore store(1 << 20);
  auto upload = store.BeginUpload(1, 1 << 20);
  const HostBuffer::Chunk nothing = Chunk("");
  (*upload)->Append(nothing);
  EXPECT_EQ(nothing.use_count(), 1);
  int chunks = 0;
  bool room = true;
  for (; room; ++chunks) {
    (*upload)->Append(Chunk("x"));
    room = false;
    (*upload)->WhenRoom([&room] { room = true; });
  }
  EXPECT_LT(chunks, 10'000);
  // Nor do they pile up on their way.
  std::vector<HostBuffer::Chunk> on_their_way;
  auto buffer = store.Take(1, -1);
  (*buffer)->Consume([&](HostBuffer::Chunk chunk) { on_their_way.push_back(std::move(chunk)); }, [](absl::Status) {});
  EXPECT_TRUE(room);
  while (room) {
    (*upload)->Append(Chunk("x"));
    room = false;
    (*upload)->WhenRoom([&room] { room = true; });
  }
  EXPECT_LT(on_their_way.size(), size_t{200'000});
  (*upload)->Finish(absl::CancelledError("")).IgnoreError();
}

// Of a request that failed after it had its buffer, or an operation that can't be sent any more.
TEST(HostBufferStoreTest, ABufferThatNobodyConsumesIsntKept) {
  HostBufferStore store(100);
  auto early = store.BeginUpload(1, 6), late = store.BeginUpload(2, 6);
  auto first = Chunk("abc"), second = Chunk("def"), third = Chunk("ghi");
  (*early)->Append(first);
  auto buffer = store.Take(1, 6);
  (*early)->Append(second);
  EXPECT_EQ(first.use_count() + second.use_count(), 4);
  buffer->reset();
  EXPECT_EQ(first.use_count() + second.use_count(), 2);
  ASSERT_TRUE(store.Take(2, 6).ok());
  (*late)->Append(third);
  EXPECT_EQ(third.use_count(), 1);
  EXPECT_TRUE((*late)->Finish(absl::CancelledError("")).code() == absl::StatusCode::kCancelled);
  EXPECT_EQ(store.awaited(), 1u);
  (*early)->Finish(absl::CancelledError("")).IgnoreError();
}

// A worker, or the network to it, may be slower than the client.
TEST(HostBufferStoreTest, ATakenUploadIsReadAsFastAsItsBytesArePassedOn) {
  HostBufferStore store(100);
  const HostBuffer::Chunk large = std::make_shared<const std::string>(HostChunks::kHeldBytesMax, 'x');
  std::vector<HostBuffer::Chunk> on_their_way;
  auto buffer = store.Take(1, -1);
  (*buffer)->Consume([&](HostBuffer::Chunk chunk) { on_their_way.push_back(std::move(chunk)); }, [](absl::Status) {});
  auto upload = store.BeginUpload(1, 4 * HostChunks::kHeldBytesMax);
  int reads = 0;
  const auto read_on = [&] { (*upload)->WhenRoom([&] { ++reads; }); };
  (*upload)->Append(Chunk("a"));
  read_on();
  EXPECT_EQ(reads, 1);
  (*upload)->Append(large);
  read_on();
  EXPECT_EQ(reads, 1);
  on_their_way[1] = nullptr;
  EXPECT_EQ(reads, 2);
  // Another one that nobody takes the bytes of doesn't stop it.
  auto other_buffer = store.Take(2, -1);
  auto other = store.BeginUpload(2, 4 * HostChunks::kHeldBytesMax);
  int other_reads = 0;
  (*other)->Append(large);
  (*other)->WhenRoom([&] { ++other_reads; });
  read_on();
  EXPECT_EQ(reads, 3);
  EXPECT_EQ(other_reads, 0);
  other_buffer->reset();
  EXPECT_EQ(other_reads, 1);
  (*upload)->Append(large);
  read_on();
  EXPECT_EQ(reads, 3);
  store.Close(absl::CancelledError("client left"));
  EXPECT_EQ(reads, 4);
}

TEST(HostBufferStoreTest, AnUploadThatEndedLeavesTheNextOneOfItsHandleAlone) {
  HostBufferStore store(100);
  auto first = store.BeginUpload(1, 3);
  (*first)->Append(Chunk("abc"));
  ASSERT_TRUE(store.Take(1, 3).ok());
  EXPECT_TRUE((*first)->Finish(absl::OkStatus()).ok());
  Consumer consumer;
  consumer.Attach(**store.Take(1, 3));
  auto second = store.BeginUpload(1, 3);
  EXPECT_TRUE((*first)->Finish(absl::CancelledError("its call ends")).ok());
  store.Close(absl::CancelledError("the end"));
  EXPECT_EQ(consumer.end->message(), "the end");
}

TEST(HostBufferStoreTest, Downloads) {
  HostBufferStore store(100);
  EXPECT_TRUE(store.Put(9, {Chunk("ab"), Chunk("cd")}).ok());
  EXPECT_FALSE(store.Put(9, {Chunk("ab")}).ok());
  EXPECT_EQ(store.counts().download_bytes, 4);
  EXPECT_EQ(store.Lookup(9)->chunks.size(), 2u);
  EXPECT_FALSE(store.Lookup(8).ok());
  store.Delete(9);
  store.Delete(9);
  EXPECT_FALSE(store.Lookup(9).ok());
  EXPECT_EQ(store.counts().download_bytes, 0);
}

}  // namespace
}  // namespace switchtower
