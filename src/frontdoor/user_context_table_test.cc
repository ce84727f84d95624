#include "frontdoor/user_context_table.h"

#include <vector>

#include <gtest/gtest.h>

#include "frontdoor/test_client.h"

namespace switchtower {
namespace {

std::vector<uint64_t> Notices(UserContextTable& table) {
  xla::ifrt::proxy::ResponseMetadata metadata;
  table.Stamp(&metadata);
  return {metadata.destroyed_user_context_ids().begin(), metadata.destroyed_user_context_ids().end()};
}
using Ids = std::vector<uint64_t>;

TEST(UserContextTableTest, NoticesEachRequestOnceWhenNobodyHoldsItsContext) {
  UserContextTable table;
  EXPECT_EQ(table.Begin(0), nullptr);
  UserContextTable::Ref one = table.Begin(7), two = table.Begin(7), other = table.Begin(8);
  EXPECT_EQ(Notices(table), Ids());
  one = nullptr;
  EXPECT_EQ(Notices(table), Ids());
  two = nullptr;
  EXPECT_EQ(Notices(table), (Ids{7, 7}));
  table.Begin(7);
  EXPECT_EQ(Notices(table), Ids{7});
  other = nullptr;
  EXPECT_EQ(Notices(table), Ids{8});
  EXPECT_EQ(table.counts().contexts, 0u);
}

TEST(UserContextTableTest, NumbersFromZeroWithoutGaps) {
  UserContextTable table;
  for (int i = 0; i < 5; ++i) {
    xla::ifrt::proxy::ResponseMetadata metadata;
    table.Stamp(&metadata);
    EXPECT_EQ(metadata.seq_num(), i);
  }
}

TEST(UserContextTableTest, ArraysKeepTheContextOfTheirRequest) {
  UserContextTable table;
  table.Own(1, table.Begin(7));
  table.Own(2, table.Begin(7));
  table.Own(0, table.Begin(8));  // the client gave no handle
  EXPECT_EQ(Notices(table), Ids{8});
  table.Destructed({1, 99});
  EXPECT_EQ(Notices(table), Ids());
  table.Destructed({2});
  EXPECT_EQ(Notices(table), (Ids{7, 7}));
  EXPECT_EQ(table.counts().arrays, 0u);
}

// What was launched before an array's end may fail because of that array.
TEST(UserContextTableTest, LaunchesKeepWhatWasDestructedBehindThem) {
  UserContextTable table;
  table.Own(1, table.Begin(7));
  auto first = table.BeginLaunch(table.Begin(8));
  auto second = table.BeginLaunch(table.Begin(9));
  table.Destructed({1});
  table.EndLaunch(*second, absl::OkStatus());
  EXPECT_EQ(Notices(table), Ids());  // in order
  EXPECT_EQ(table.counts().launches, 2u);
  table.EndLaunch(*first, absl::OkStatus());
  EXPECT_EQ(Notices(table), (Ids{8, 9, 7}));
  EXPECT_EQ(table.counts().launches, 0u);
}

TEST(UserContextTableTest, ErrorsKeepTheContextThatTheyName) {
  UserContextTable table;
  table.Own(1, table.Begin(7));
  auto launch = table.BeginLaunch(table.Begin(8));
  table.Destructed({1});
  table.EndLaunch(*launch, AttachUserContext(absl::InternalError("because of the array"), 7));
  EXPECT_EQ(Notices(table), Ids{8});
  for (uint64_t id = 100; id < 100 + UserContextTable::kRemembered; ++id) {
    UserContextTable::Ref ref = table.Begin(id);
    table.Remember(AttachUserContext(absl::InternalError("another"), id));
  }
  EXPECT_EQ(Notices(table), Ids{7});
  EXPECT_EQ(table.counts().contexts, UserContextTable::kRemembered);
}

// Through the door: whatever a request makes, its context is noticed once all of it is gone, and the numbers that
// the client counts by have no gap.
TEST(UserContextTableTest, RequestsAreNoticedThroughTheDoor) {
  auto client = TestClient::Create();
  const Shape shape{DType::kU8, {8}};
  uint64_t context = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t handle = client->next_handle++;
    ASSERT_TRUE(client->Run(TestClient::MakeArray(handle, shape, TestClient::Replicated({0})), ++context).ok());
    client->Upload(handle, "12345678");
    IfrtRequest copy, destruct, remove, future;
    copy.mutable_copy_arrays_request()->add_array_handles(handle);
    copy.mutable_copy_arrays_request()->add_device_ids(1);
    copy.mutable_copy_arrays_request()->add_result_handles(client->next_handle);
    ASSERT_TRUE(client->Run(std::move(copy), ++context).ok());
    remove.mutable_delete_array_request()->add_array_handle(handle);
    const IfrtResponse removed = client->Call(std::move(remove));
    future.mutable_check_future_request()->set_future_handle(removed.delete_array_response().deletion_future_handle());
    EXPECT_TRUE(client->Run(std::move(future)).ok());
    EXPECT_EQ(client->client->state().user_contexts->counts().contexts, 2u);
    destruct.mutable_destruct_array_request()->add_array_handle(handle);
    destruct.mutable_destruct_array_request()->add_array_handle(client->next_handle++);
    EXPECT_TRUE(client->Run(std::move(destruct)).ok());
    EXPECT_EQ(client->client->state().user_contexts->counts().contexts, 0u);
  }
  EXPECT_TRUE(client->Run(TestClient::MakeArray(client->next_handle, shape, TestClient::Replicated({0}))).ok());
  std::vector<int64_t> numbers;
  Ids noticed;
  for (const IfrtResponse& reply : client->replies) {
    const auto& metadata = reply.response_metadata();
    const bool makes_arrays = reply.has_make_array_from_host_buffer_response() || reply.has_copy_arrays_response();
    if (makes_arrays) numbers.push_back(metadata.seq_num());
    if (!makes_arrays) {
      EXPECT_EQ(metadata.seq_num(), UserContextTable::kUnnumbered);
    }
    noticed.insert(noticed.end(), metadata.destroyed_user_context_ids().begin(),
                   metadata.destroyed_user_context_ids().end());
  }
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int64_t>(i));
  EXPECT_EQ(noticed.size(), context);
}

}  // namespace
}  // namespace switchtower
