#include "worker/exec/inbound_transfer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "worker/engine/fake_engine.h"

namespace switchtower {
namespace {

class InboundTransferTest : public ::testing::Test {
 protected:
  // A shard of bytes that comes in two halves, from workers 1 and 2.
  std::shared_ptr<InboundTransfer> NewShard(int64_t bytes) {
    InboundTransfer::Target target;
    target.shape = Shape{DType::kS8, {bytes}};
    target.layout = Layout::Default(1);
    target.memory_kind = "device";
    target.entry = entry_;
    std::vector<InboundTransfer::Piece> pieces = {{0, WorkerId{1}, Box{{0}, {bytes / 2}}},
                                                  {1, WorkerId{2}, Box{{bytes / 2}, {bytes / 2}}}};
    return std::make_shared<InboundTransfer>(engine_, std::move(target), std::move(pieces),
                                             [this](const absl::Status& status, bool) { ended_ = status; });
  }

  FakeEngine engine_{1};
  const BufferEntryPtr entry_ = std::make_shared<BufferEntry>(std::make_shared<StoreUsage>());
  std::optional<absl::Status> ended_;
};

TEST_F(InboundTransferTest, PutsItsPiecesTogether) {
  const auto shard = NewShard(8);
  shard->AddPiece(1, DenseBytes{"efgh", nullptr, {}});
  EXPECT_FALSE(ended_.has_value());
  shard->AddPiece(0, DenseBytes{"abcd", nullptr, {}});
  ASSERT_TRUE(ended_.has_value());
  EXPECT_TRUE(ended_->ok()) << *ended_;
  EXPECT_NE(entry_->content().buffer, nullptr);
}

TEST_F(InboundTransferTest, APieceOfAnotherSizeIsAnError) {
  const auto shard = NewShard(8);
  shard->AddPiece(0, DenseBytes{"abc", nullptr, {}});
  ASSERT_TRUE(ended_.has_value());
  EXPECT_TRUE(absl::IsDataLoss(*ended_));
}

// It took the piece for the whole shard, and read on behind it.
TEST_F(InboundTransferTest, NoMemoryForTheWholeIsAnError) {
  const auto shard = NewShard(int64_t{1} << 47);  // more than a process can address
  shard->AddPiece(0, DenseBytes{"abcd", nullptr, {}});
  ASSERT_TRUE(ended_.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*ended_)) << *ended_;
}

}  // namespace
}  // namespace switchtower
