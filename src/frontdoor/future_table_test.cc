#include "frontdoor/future_table.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(FutureTableTest, FilledThenTaken) {
  FutureTable table;
  ASSERT_TRUE(table.AddFilled(7, absl::DataLossError("gone")).ok());
  absl::Status got;
  table.Take(7, [&](absl::Status status) { got = status; });
  EXPECT_EQ(got.code(), absl::StatusCode::kDataLoss);
  table.Take(7, [&](absl::Status status) { got = status; });
  EXPECT_EQ(got.code(), absl::StatusCode::kInvalidArgument);  // once only
  EXPECT_EQ(table.size(), 0u);
}

TEST(FutureTableTest, TakenThenFilledOnce) {
  FutureTable table;
  auto fill = table.Add(7);
  ASSERT_TRUE(fill.ok());
  int calls = 0;
  table.Take(7, [&](absl::Status status) { ++calls; });
  EXPECT_EQ(calls, 0);
  (*fill)(absl::OkStatus());
  (*fill)(absl::UnknownError("again"));
  EXPECT_EQ(calls, 1);
}

TEST(FutureTableTest, HandlesAreUniqueAndDroppable) {
  FutureTable table;
  auto fill = table.Add(7);
  EXPECT_FALSE(table.Add(7).ok());
  table.Drop(7);
  EXPECT_TRUE(table.Add(7).ok());
  (*fill)(absl::OkStatus());  // nobody waits any more
}

TEST(FutureTableTest, FillOutlivesTheTable) {
  auto table = std::make_unique<FutureTable>();
  auto fill = table->Add(7);
  absl::Status got = absl::UnknownError("pending");
  table->Take(7, [&](absl::Status status) { got = status; });
  table.reset();
  (*fill)(absl::OkStatus());
  EXPECT_TRUE(got.ok());
}

}  // namespace
}  // namespace switchtower
