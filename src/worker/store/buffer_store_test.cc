#include "worker/store/buffer_store.h"

#include <gtest/gtest.h>

#include "worker/engine/fake_engine.h"

namespace switchtower {
namespace {

const ArrayKey kA{{1}, {10}};
const ArrayKey kB{{1}, {11}};

class BufferStoreTest : public testing::Test {
 protected:
  EngineBufferPtr Buffer() {
    static const float value[2] = {1, 2};
    return *engine_.FromHost(0, "", HostData{value, nullptr, Shape{DType::kF32, {2}}, {}}, std::nullopt);
  }
  FakeEngine engine_{2};
  BufferStore store_;
};

TEST_F(BufferStoreTest, UnknownNamesReadAsErrors) {
  absl::Status seen;
  store_.Find(kA, 0)->OnReady([&](absl::Status status) { seen = status; });
  EXPECT_EQ(seen.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BufferStoreTest, WaitersHearOfTheFirstFillOnly) {
  BufferEntryPtr entry = store_.Promise(kA, 0);
  int filled = 0;
  std::vector<absl::Status> ready;
  entry->OnFilled([&] { ++filled; });
  entry->OnReady([&](absl::Status status) { ready.push_back(status); });
  EXPECT_EQ(filled, 0);
  entry->Fail(absl::DataLossError("first"));
  entry->Fail(absl::InternalError("second"));
  entry->Fill(Buffer(), nullptr);
  EXPECT_EQ(filled, 1);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0], absl::DataLossError("first"));
  EXPECT_EQ(entry->content().buffer, nullptr);
}

TEST_F(BufferStoreTest, ReadyWaitsForTheProducerAndItsErrorWins) {
  BufferEntryPtr entry = store_.Promise(kA, 0);
  auto producer = std::make_shared<Outcome>();
  std::vector<absl::Status> ready;
  entry->Fill(Buffer(), producer);
  entry->OnReady([&](absl::Status status) { ready.push_back(status); });
  EXPECT_TRUE(ready.empty());
  producer->Set(absl::DataLossError("peer"));
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0], absl::DataLossError("peer"));
}

TEST_F(BufferStoreTest, NamesAreCounted) {
  BufferEntryPtr entry = store_.Promise(kA, 1);
  store_.Bind(kA, kB, 1);
  EXPECT_EQ(store_.Find(kB, 1), entry);
  EXPECT_EQ(entry->names, 2);
  store_.ReplaceByError(kA, 1, absl::InvalidArgumentError("donated"));
  EXPECT_EQ(entry->names, 1);
  EXPECT_NE(store_.Find(kA, 1), entry);
  store_.EraseSession({1});
  EXPECT_EQ(entry->names, 0);
}

TEST_F(BufferStoreTest, PinnedBuffersAreNotTaken) {
  BufferEntryPtr entry = store_.Promise(kA, 0);
  EXPECT_FALSE(entry->TryTake());
  entry->Fill(Buffer(), nullptr);
  {
    EntryPin pin(entry);
    EntryPin moved = std::move(pin);
    EXPECT_FALSE(entry->TryTake());
  }
  EXPECT_TRUE(entry->TryTake());
  EXPECT_FALSE(entry->TryTake());
}

TEST_F(BufferStoreTest, UsageFollowsEntriesNotNames) {
  BufferEntryPtr entry = store_.Promise(kA, 0);
  entry->Fill(Buffer(), nullptr);
  store_.Bind(kA, kB, 0);
  EXPECT_EQ(store_.usage().bytes, 8);
  EXPECT_EQ(store_.usage().entries, 1);
  entry = nullptr;
  store_.Erase(kA);
  EXPECT_EQ(store_.usage().bytes, 8);
  store_.Erase(kB);
  EXPECT_EQ(store_.usage().bytes, 0);
  EXPECT_EQ(store_.usage().entries, 0);
  EXPECT_EQ(engine_.live_buffers(), 0);
}

}  // namespace
}  // namespace switchtower
