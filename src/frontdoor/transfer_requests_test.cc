// Init, puts and reads, futures and errors, as a client of each protocol version sees them.
#include <gtest/gtest.h>

#include "frontdoor/test_client.h"

namespace switchtower {
namespace {

const Shape kVector{DType::kS32, {4}};
const std::string kBytes = "0123456789abcdef";

class TransfersByProtocol : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, TransfersByProtocol, testing::Range(kProtocolMin, kProtocolMax + 1));

TEST_P(TransfersByProtocol, Init) {
  auto client = TestClient::Create(GetParam());
  IfrtRequest request;
  request.mutable_init_request();
  const IfrtResponse response = client->Call(request);
  const auto& init = response.init_response();
  EXPECT_EQ(init.session_id(), client->buffers->key());
  EXPECT_EQ(init.platform_name(), "cpu");
  EXPECT_TRUE(init.client_attributes().attributes().at("serialize_with_sdy").bool_value());
  EXPECT_FALSE(init.client_attributes().attributes().at("supports_executable_serialization").bool_value());
  ASSERT_EQ(init.all_devices_size(), 4);
  EXPECT_EQ(init.primary_device_ids_size(), 4);
  EXPECT_EQ(init.addressable_device_ids_size(), 4);
  EXPECT_EQ(init.memories_size(), 12);
  const auto& device = init.all_devices(3);
  EXPECT_EQ(device.memory_ids_size(), 3);
  EXPECT_EQ(device.default_memory_id(), 9);
  EXPECT_EQ(device.attributes().attributes().at("slice_index").int64_value(), 1);
  EXPECT_EQ(device.attributes().attributes().at("coords").int64_list_value().elements_size(), 3);
  EXPECT_EQ(device.platform_name(), GetParam() >= 22 ? "cpu" : "");
}

TEST_P(TransfersByProtocol, PutAndRead) {
  auto client = TestClient::Create(GetParam());
  const uint64_t array = client->Put(kVector, kBytes, {0});
  EXPECT_TRUE(client->Ready({array}).ok());
  EXPECT_EQ(*client->Download(array), kBytes);
}

TEST(TransferTest, ReadinessWaitsForTheUpload) {
  auto client = TestClient::Create();
  ASSERT_TRUE(client->Run(TestClient::MakeArray(1, kVector, TestClient::Replicated({0, 1, 2, 3}))).ok());
  IfrtRequest ready;
  ready.mutable_check_value_ready_request()->add_value_handles(1);
  const uint64_t op = client->Post(ready);
  EXPECT_EQ(client->Find(op), nullptr);
  client->Upload(1, kBytes);
  ASSERT_NE(client->Find(op), nullptr);
  EXPECT_TRUE(TestClient::StatusOf(*client->Find(op)).ok());
  EXPECT_EQ(*client->Download(1), kBytes);
}

TEST(TransferTest, StridesAndScalars) {
  auto client = TestClient::Create();
  const Shape matrix{DType::kS32, {2, 2}};
  IfrtRequest request = TestClient::MakeArray(1, matrix, TestClient::Replicated({0}));
  auto* strides = request.mutable_make_array_from_host_buffer_request()->mutable_byte_strides();
  strides->add_strides(4);
  strides->add_strides(8);
  ASSERT_TRUE(client->Run(request).ok());
  client->Upload(1, kBytes);  // column-major
  EXPECT_EQ(*client->Download(1), "012389ab4567cdef");

  request = TestClient::MakeArray(2, Shape{DType::kS32, {}}, TestClient::Replicated({0}));
  request.mutable_make_array_from_host_buffer_request()->mutable_byte_strides();
  ASSERT_TRUE(client->Run(request).ok());
  client->Upload(2, "wxyz");
  EXPECT_EQ(*client->Download(2), "wxyz");

  // A dimension of one element takes no step, whatever its stride.
  request = TestClient::MakeArray(4, Shape{DType::kS32, {1, 4}}, TestClient::Replicated({0}));
  strides = request.mutable_make_array_from_host_buffer_request()->mutable_byte_strides();
  strides->add_strides(-8);
  strides->add_strides(4);
  ASSERT_TRUE(client->Run(request).ok());
  client->Upload(4, kBytes);
  EXPECT_EQ(*client->Download(4), kBytes);

  // Read with strides: rows of 12 bytes.
  IfrtRequest read;
  auto* copy = read.mutable_copy_to_host_buffer_request();
  copy->set_array_handle(1);
  copy->set_host_buffer_handle(3);
  copy->mutable_byte_strides()->add_strides(12);
  copy->mutable_byte_strides()->add_strides(4);
  ASSERT_TRUE(client->Run(read).ok());
  EXPECT_EQ(client->buffers->Lookup(3)->chunks[0]->size(), 20u);
  // Here too, a dimension of one element takes no step.
  IfrtRequest row;
  auto* copy_row = row.mutable_copy_to_host_buffer_request();
  copy_row->set_array_handle(4);
  copy_row->set_host_buffer_handle(6);
  copy_row->mutable_byte_strides()->add_strides(-8);
  copy_row->mutable_byte_strides()->add_strides(8);
  ASSERT_TRUE(client->Run(row).ok());
  EXPECT_EQ(client->buffers->Lookup(6)->chunks[0]->size(), 28u);
  // Strides may not ask for more memory than the array is worth.
  for (int64_t stride : {int64_t{1} << 30, int64_t{1} << 62, int64_t{-4}}) {
    copy->set_host_buffer_handle(5);
    copy->mutable_byte_strides()->set_strides(0, stride);
    EXPECT_FALSE(client->Run(read).ok()) << stride;
  }
}

TEST(TransferTest, StringsPassUnread) {
  auto client = TestClient::Create();
  const uint64_t array = client->Put(Shape{DType::kString, {2}}, "\n\3abc\n\1d", {0});
  EXPECT_EQ(*client->Download(array), "\n\3abc\n\1d");
}

IfrtRequest ShardsRequest(uint64_t first) {
  const Shape shape{DType::kS32, {4}};
  IfrtRequest request;
  auto* make = request.mutable_make_arrays_from_host_buffer_shards_request();
  auto* spec = make->add_specs();
  *spec->mutable_array_spec() = TestClient::Spec(shape, TestClient::Rows({0, 1}, 1));
  for (int i = 0; i < 2; ++i) {
    spec->add_addressable_shard_indices()->add_indices(i);
    auto* buffer = spec->add_host_buffers();
    ToProto(DType::kS32, buffer->mutable_dtype());
    buffer->mutable_shape()->add_dims(2);
    buffer->set_host_buffer_handle(first + i);
  }
  make->add_array_handles(first);
  return request;
}

TEST(TransferTest, ShardsAndDisassembly) {
  auto client = TestClient::Create();
  ASSERT_TRUE(client->Run(ShardsRequest(1)).ok());
  client->Upload(1, kBytes.substr(0, 8));
  client->Upload(2, kBytes.substr(8));
  IfrtRequest request;
  auto* disassemble = request.mutable_disassemble_into_single_device_arrays_request();
  disassemble->set_array_handle(1);
  disassemble->add_result_handles(3);
  disassemble->add_result_handles(4);
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(*client->Download(4), kBytes.substr(8));
  EXPECT_FALSE(client->Download(1).ok());  // cut: no single copy to read
}

TEST(TransferTest, ShardsThatDoNotFitAreRefusedAndBound) {
  auto broken = [](auto change) {
    auto client = TestClient::Create();
    IfrtRequest request = ShardsRequest(1);
    change(*request.mutable_make_arrays_from_host_buffer_shards_request());
    EXPECT_FALSE(client->Run(request, 4711).ok());
    // A later use repeats the cause, with the place in the user's program.
    const absl::Status later = client->Ready({1});
    EXPECT_EQ(later.GetPayload(kUserContextPayload), absl::Cord("4711")) << later;
    client->Upload(1, "unused");
    EXPECT_EQ(client->buffers->counts().waiting_bytes, 0);
  };
  broken([](auto& r) { r.mutable_specs(0)->mutable_addressable_shard_indices(1)->set_indices(0, 0); });
  broken([](auto& r) { r.mutable_specs(0)->mutable_addressable_shard_indices(1)->set_indices(0, 2); });
  broken([](auto& r) { r.mutable_specs(0)->mutable_addressable_shard_indices(1)->clear_indices(); });
  broken([](auto& r) { r.mutable_specs(0)->mutable_host_buffers()->RemoveLast(); });
  broken([](auto& r) { r.mutable_specs(0)->mutable_host_buffers(1)->mutable_shape()->set_dims(0, 3); });
  broken([](auto& r) {
    r.mutable_specs(0)->mutable_host_buffers()->RemoveLast();
    r.mutable_specs(0)->mutable_addressable_shard_indices()->RemoveLast();
  });
}

// The client doesn't send again what it has sent: a buffer that is here, of a request that failed, isn't waited for.
TEST(TransferTest, AFailedRequestWaitsForNoBuffer) {
  for (const bool twice : {false, true}) {
    auto client = TestClient::Create();
    client->Upload(1, kBytes.substr(0, 8));
    client->Upload(2, kBytes.substr(8));
    IfrtRequest request = ShardsRequest(1);
    auto* make = request.mutable_make_arrays_from_host_buffer_shards_request();
    make->mutable_specs(0)->mutable_addressable_shard_indices(1)->set_indices(0, 2);
    if (twice) make->mutable_specs(0)->mutable_host_buffers(1)->set_host_buffer_handle(1);
    EXPECT_FALSE(client->Run(request).ok());
    EXPECT_EQ(client->buffers->awaited(), 0u);
    EXPECT_EQ(client->buffers->counts().buffers, twice ? 1u : 0u);
  }
}

// Of a request that names a buffer of another one, the rest comes and goes nowhere.
TEST(TransferTest, ABufferThatWasTakenFailsTheWholeRequest) {
  auto client = TestClient::Create();
  ASSERT_TRUE(client->Run(TestClient::MakeArray(2, kVector, TestClient::Replicated({0}))).ok());
  EXPECT_FALSE(client->Run(ShardsRequest(1)).ok());
  EXPECT_EQ(client->Ready({1}).code(), absl::StatusCode::kInvalidArgument);
  client->Upload(1, kBytes.substr(0, 8));
  client->Upload(2, kBytes);
  EXPECT_EQ(client->buffers->counts().buffers, 0u);
  EXPECT_EQ(client->buffers->awaited(), 0u);
  EXPECT_EQ(*client->Download(2), kBytes);
}

TEST(TransferTest, WrongUploadSizeIsTheArraysError) {
  auto client = TestClient::Create();
  ASSERT_TRUE(client->Run(TestClient::MakeArray(1, kVector, TestClient::Replicated({0}))).ok());
  client->Upload(1, "short");
  EXPECT_EQ(client->Ready({1}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TransferTest, BadPutsBindTheirError) {
  auto broken = [](auto change) {
    auto client = TestClient::Create();
    IfrtRequest request = TestClient::MakeArray(1, kVector, TestClient::Replicated({0, 1}));
    change(*request.mutable_make_array_from_host_buffer_request());
    EXPECT_FALSE(client->Run(request, 5).ok());
    EXPECT_EQ(client->Ready({1}).GetPayload(kUserContextPayload), absl::Cord("5"));
  };
  broken([](auto& r) { r.mutable_shape()->set_dims(0, -1); });
  broken([](auto& r) { r.mutable_dtype()->set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(77)); });
  broken([](auto& r) { r.clear_sharding(); });
  broken([](auto& r) { r.mutable_sharding()->mutable_serialized_sharding()->set_data("\xff"); });
  broken([](auto& r) { r.mutable_byte_strides()->add_strides(3); });
  broken([](auto& r) { r.mutable_layout(); });
  broken([](auto& r) { EXPECT_TRUE(ToProto(TestClient::Rows({0, 1}, 1), kVector, r.mutable_sharding()).ok()); });
}

TEST(TransferTest, HandlesOfTheWrongRange) {
  auto client = TestClient::Create();
  for (uint64_t handle : {uint64_t{0}, kVector.elements() + (uint64_t{1} << 48)}) {
    IfrtRequest request = TestClient::MakeArray(handle, kVector, TestClient::Replicated({0}));
    EXPECT_FALSE(client->Run(request).ok());
  }
  EXPECT_EQ(client->fake->arrays(), 0u);
  const uint64_t array = client->Put(kVector, kBytes, {0});
  IfrtRequest again = TestClient::MakeArray(array, kVector, TestClient::Replicated({0}));
  EXPECT_FALSE(client->Run(again).ok());
  EXPECT_EQ(*client->Download(array), kBytes);  // the first one stands
}

TEST(TransferTest, ErrorArrays) {
  auto client = TestClient::Create();
  IfrtRequest request;
  auto* make = request.mutable_make_error_arrays_request();
  ToProto(absl::DataLossError("lost"), make->mutable_error());
  *make->add_array_specs() = TestClient::Spec(kVector, TestClient::Replicated({0}));
  make->add_array_handles(1);
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(client->Ready({1}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(client->Download(1).status().code(), absl::StatusCode::kDataLoss);
}

TEST(TransferTest, ReadinessReportsTheFirstError) {
  auto client = TestClient::Create();
  const uint64_t good = client->Put(kVector, kBytes, {0});
  EXPECT_TRUE(client->Ready({}).ok());
  const absl::Status status = client->Ready({good, 999});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);  // never NotFound
}

TEST(TransferTest, CloseAnswersWhatWaits) {
  auto client = TestClient::Create();
  ASSERT_TRUE(client->Run(TestClient::MakeArray(1, kVector, TestClient::Replicated({0}))).ok());
  IfrtRequest ready;
  ready.mutable_check_value_ready_request()->add_value_handles(1);
  const uint64_t op = client->Post(ready);
  client->client->Close(absl::CancelledError("bye"));
  ASSERT_NE(client->Find(op), nullptr);
  EXPECT_EQ(TestClient::StatusOf(*client->Find(op)).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace switchtower
