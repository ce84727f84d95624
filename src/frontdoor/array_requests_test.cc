// Arrays from arrays, and their end.
#include <gtest/gtest.h>

#include "frontdoor/test_client.h"

namespace switchtower {
namespace {

const Shape kVector{DType::kS32, {4}};
const Shape kHalf{DType::kS32, {2}};
const std::string kBytes = "0123456789abcdef";

// Two single-device arrays and the whole that they make.
struct Halves {
  std::shared_ptr<TestClient> client = TestClient::Create();
  uint64_t first = client->Put(kHalf, kBytes.substr(0, 8), {0});
  uint64_t second = client->Put(kHalf, kBytes.substr(8), {1});

  IfrtRequest Assemble(uint64_t result) {
    IfrtRequest request;
    auto* assemble = request.mutable_assemble_array_from_single_device_arrays_request();
    ToProto(kVector.dims, assemble->mutable_shape());
    ToProto(kVector.dtype, assemble->mutable_dtype());
    EXPECT_TRUE(ToProto(TestClient::Rows({0, 1}, 1), kVector, assemble->mutable_sharding()).ok());
    assemble->add_single_device_array_handles(first);
    assemble->add_single_device_array_handles(second);
    assemble->set_result_handle(result);
    return request;
  }
};

IfrtRequest Reshard(uint64_t array, uint64_t result, const Shape& shape, const Sharding& sharding) {
  IfrtRequest request;
  auto* reshard = request.mutable_reshard_arrays_request();
  reshard->add_array_handles(array);
  reshard->add_result_handles(result);
  *reshard->add_array_specs() = TestClient::Spec(shape, sharding);
  return request;
}

TEST(ArrayRequestsTest, AssembleAndReshard) {
  Halves halves;
  auto& client = *halves.client;
  const IfrtResponse response = client.Call(halves.Assemble(10));
  EXPECT_EQ(response.assemble_array_from_single_device_arrays_response().array_handle(), 10u);
  ASSERT_TRUE(client.Run(Reshard(10, 11, kVector, TestClient::Replicated({2, 3}))).ok());
  EXPECT_EQ(*client.Download(11), kBytes);
  EXPECT_FALSE(client.Run(Reshard(10, 12, kHalf, TestClient::Replicated({2, 3}))).ok());
  EXPECT_FALSE(client.Ready({12}).ok());
}

TEST(ArrayRequestsTest, AssembleWithoutDType) {
  Halves halves;
  IfrtRequest request = halves.Assemble(10);
  request.mutable_assemble_array_from_single_device_arrays_request()->clear_dtype();
  ASSERT_TRUE(halves.client->Run(request).ok());
  ASSERT_TRUE(halves.client->Run(Reshard(10, 11, kVector, TestClient::Replicated({2}))).ok());
  EXPECT_EQ(*halves.client->Download(11), kBytes);
}

TEST(ArrayRequestsTest, ErrorsSpreadToResults) {
  Halves halves;
  auto& client = *halves.client;
  halves.second = 777;  // unknown
  EXPECT_FALSE(client.Run(halves.Assemble(10), 42).ok());
  EXPECT_FALSE(client.Run(Reshard(10, 11, kVector, TestClient::Replicated({2}))).ok());
  EXPECT_FALSE(client.Download(11).ok());
}

TEST(ArrayRequestsTest, FullyReplicatedShard) {
  auto client = TestClient::Create();
  const uint64_t array = client->Put(kVector, kBytes, {2, 3});
  IfrtRequest request;
  auto* shard = request.mutable_fully_replicated_shard_request();
  shard->set_array_handle(array);
  shard->set_result_handle(50);
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(*client->Download(50), kBytes);
  shard->set_result_handle(0);  // the server chooses
  EXPECT_GE(client->Call(request).fully_replicated_shard_response().array_handle(), uint64_t{1} << 48);
  shard->set_copy_semantics(static_cast<xla::ifrt::proto::ArrayCopySemantics>(9));
  shard->set_result_handle(51);
  EXPECT_FALSE(client->Run(request).ok());
  EXPECT_FALSE(client->Ready({51}).ok());
}

TEST(ArrayRequestsTest, Copy) {
  auto client = TestClient::Create();
  const uint64_t array = client->Put(kVector, kBytes, {0});
  auto copy = [&](uint64_t result, int device, const char* memory_kind) {
    IfrtRequest request;
    auto* arrays = request.mutable_copy_arrays_request();
    arrays->add_array_handles(array);
    arrays->add_device_ids(device);
    if (memory_kind != nullptr) arrays->set_memory_kind(memory_kind);
    arrays->add_result_handles(result);
    return client->Run(request);
  };
  EXPECT_TRUE(copy(10, 3, nullptr).ok());
  EXPECT_TRUE(copy(11, 3, "pinned_host").ok());
  EXPECT_EQ(*client->Download(11), kBytes);
  EXPECT_FALSE(copy(12, 4, nullptr).ok());
  EXPECT_FALSE(copy(13, 0, "moon").ok());
  EXPECT_FALSE(client->Ready({12}).ok());
  EXPECT_FALSE(client->Ready({13}).ok());
}

TEST(ArrayRequestsTest, Remap) {
  Halves halves;
  auto& client = *halves.client;
  IfrtRequest request;
  auto* remap = request.mutable_remap_arrays_request();
  auto* plan = remap->mutable_plan();
  remap->add_array_handles(halves.first);
  remap->add_array_handles(halves.second);
  *plan->add_input_specs() = TestClient::Spec(kHalf, TestClient::Replicated({0}));
  *plan->add_input_specs() = TestClient::Spec(kHalf, TestClient::Replicated({1}));
  *plan->add_output_specs() = TestClient::Spec(kVector, TestClient::Rows({1, 0}, 1));
  for (int in = 0; in < 2; ++in) {
    auto* mapping = plan->add_mappings();
    mapping->set_in_array(in);
    mapping->add_from_start(0);
    mapping->add_from_end(1);
    mapping->add_from_step(1);
    mapping->add_to_start(1 - in);
    mapping->add_to_end(2 - in);
    mapping->add_to_step(1);
  }
  remap->add_result_handles(20);
  ASSERT_TRUE(client.Run(request).ok());
  ASSERT_TRUE(client.Run(Reshard(20, 21, kVector, TestClient::Replicated({2}))).ok());
  EXPECT_EQ(*client.Download(21), kBytes.substr(8) + kBytes.substr(0, 8));
  remap->set_result_handles(0, 22);
  remap->add_result_handles(23);
  EXPECT_FALSE(client.Run(request).ok());
  EXPECT_FALSE(client.Ready({23}).ok());
}

TEST(ArrayRequestsTest, Bitcast) {
  auto client = TestClient::Create();
  const uint64_t array = client->Put(kVector, kBytes, {0});
  IfrtRequest request;
  auto* bitcast = request.mutable_bitcast_arrays_request();
  bitcast->add_array_handles(array);
  bitcast->add_result_handles(30);
  *bitcast->add_array_specs() = TestClient::Spec(Shape{DType::kF32, {2, 2}}, TestClient::Replicated({0}));
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(*client->Download(30), kBytes);
  bitcast->add_array_handles(array);
  bitcast->set_result_handles(0, 31);
  EXPECT_FALSE(client->Run(request).ok());
}

TEST(ArrayRequestsTest, DeleteThenDestruct) {
  auto client = TestClient::Create();
  const uint64_t array = client->Put(kVector, kBytes, {0});
  IfrtRequest is_deleted;
  is_deleted.mutable_is_array_deleted_request()->set_array_handle(array);
  EXPECT_FALSE(client->Call(is_deleted).is_array_deleted_response().deleted());

  IfrtRequest remove;
  remove.mutable_delete_array_request()->add_array_handle(array);
  const uint64_t future = client->Call(remove).delete_array_response().deletion_future_handle();
  EXPECT_GE(future, uint64_t{1} << 48);
  IfrtRequest check;
  check.mutable_check_future_request()->set_future_handle(future);
  EXPECT_TRUE(client->Run(check).ok());
  EXPECT_FALSE(client->Run(check).ok());  // once only
  EXPECT_TRUE(client->Call(is_deleted).is_array_deleted_response().deleted());
  EXPECT_FALSE(client->Download(array).ok());

  IfrtRequest destruct;
  destruct.mutable_destruct_array_request()->add_array_handle(array);
  EXPECT_TRUE(client->Run(destruct).ok());
  EXPECT_FALSE(client->Run(destruct).ok());
  EXPECT_EQ(client->fake->arrays(), 0u);
}

TEST(ArrayRequestsTest, DisassembleNeedsHandles) {
  auto client = TestClient::Create();
  const uint64_t array = client->Put(kVector, kBytes, {0, 1});
  IfrtRequest request;
  auto* disassemble = request.mutable_disassemble_into_single_device_arrays_request();
  disassemble->set_array_handle(array);
  EXPECT_FALSE(client->Run(request).ok());
  disassemble->add_result_handles(40);
  disassemble->add_result_handles(40);
  EXPECT_FALSE(client->Run(request).ok());
  disassemble->set_result_handles(1, 41);
  EXPECT_FALSE(client->Run(request).ok());  // 40 stands for the error of before
  disassemble->set_result_handles(0, 42);
  EXPECT_TRUE(client->Run(request).ok());
}

}  // namespace
}  // namespace switchtower
