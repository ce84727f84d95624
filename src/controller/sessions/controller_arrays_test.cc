// Requests that make arrays of arrays, as commands to fake workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/graph/put_requests.h"
#include "controller/sessions/testing_controller.h"

namespace switchtower {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class ArraysTest : public ControllerTest {
 protected:
  void SetUp() override {
    StartAll();
    ASSERT_TRUE(Put(1, TiledSpec({8, 4}, {0, 1, 2, 3}), 5).ok());
    Settle();
  }
  absl::Status Copy(uint64_t from, uint64_t to, std::vector<uint64_t> devices,
                    std::optional<std::string> kind = std::nullopt,
                    CopySemantics semantics = CopySemantics::kReuseInput) {
    const ArrayId source{from}, result{to};
    return session->Copy({&source, 1}, {&result, 1}, Devices(devices), kind, semantics, 9);
  }
  template <typename T>
  size_t Count(int worker) {
    Settle();
    return workers[worker]->All<T>().size();
  }
};

TEST_F(ArraysTest, CopiesMoveOnlyWhatMustMove) {
  ASSERT_TRUE(Copy(1, 2, {}).ok());
  ASSERT_EQ(Count<BindArrays>(0), 1u);
  const BindArrays bind = workers[1]->All<BindArrays>()[0];
  ASSERT_EQ(bind.bindings.size(), 2u);
  EXPECT_EQ(bind.bindings[0].device, (PhysicalDevice{ids[1], 0}));
  EXPECT_EQ(bind.bindings[0].to, ArrayId{2});
  EXPECT_EQ(Count<TransferArray>(0), 0u);
  // A real copy, another memory, other devices.
  ASSERT_TRUE(Copy(1, 3, {}, std::nullopt, CopySemantics::kAlwaysCopy).ok());
  ASSERT_TRUE(Copy(1, 4, {}, "pinned_host").ok());
  ASSERT_TRUE(Copy(1, 5, {3, 2, 1, 0}).ok());
  ASSERT_EQ(Count<TransferArray>(1), 3u);
  const std::vector<TransferArray> transfers = workers[1]->All<TransferArray>();
  EXPECT_EQ(transfers[1].memory_kind, "pinned_host");
  EXPECT_EQ(transfers[1].pieces[3].source, transfers[1].pieces[3].destination);
  EXPECT_EQ(transfers[2].pieces[0].source, (PhysicalDevice{ids[0], 0}));
  EXPECT_EQ(transfers[2].pieces[0].destination, (PhysicalDevice{ids[1], 1}));
  EXPECT_LT(transfers[1].id, transfers[2].id);
  EXPECT_FALSE(Copy(1, 6, {0}).ok());
  EXPECT_THAT(Message(Ready({6})), HasSubstr("4 devices can't be copied to 1"));
  EXPECT_EQ(ContextOf(Ready({6})), 9u);
  EXPECT_FALSE(Copy(1, 7, {}, "disk").ok());
}

TEST_F(ArraysTest, ADonatedInputIsGoneAfterwards) {
  ASSERT_TRUE(Copy(1, 2, {}, std::nullopt, CopySemantics::kDonateInput).ok());
  EXPECT_TRUE(*session->IsDeleted(ArrayId{1}));
  EXPECT_TRUE(Ready({2}).ok());
  Settle();
  const std::vector<WorkerCommand> commands = workers[0]->commands();
  size_t bind = 0, removal = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (std::holds_alternative<BindArrays>(commands[i])) bind = i;
    if (std::holds_alternative<DeleteArrays>(commands[i])) removal = i;
  }
  EXPECT_LT(bind, removal);
}

TEST_F(ArraysTest, ReshardsArePlannedPieceByPiece) {
  const ArrayId source{1}, result{2};
  const ArraySpec replicated = ReplicatedSpec({8, 4}, {2, 3});
  ASSERT_TRUE(session->Reshard({&source, 1}, {&result, 1}, {&replicated, 1}, CopySemantics::kReuseInput, 0).ok());
  ASSERT_EQ(Count<TransferArray>(0), 1u);
  const TransferArray transfer = workers[0]->All<TransferArray>()[0];
  EXPECT_EQ(transfer.destinations.size(), 2u);
  EXPECT_EQ(transfer.pieces.size(), 8u);
  EXPECT_EQ(Count<TransferArray>(1), 1u);
  const ArraySpec other = ReplicatedSpec({8, 5}, {2, 3});
  const ArrayId third{3};
  EXPECT_FALSE(session->Reshard({&source, 1}, {&third, 1}, {&other, 1}, CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(Message(Ready({3})), HasSubstr("can't turn f32[8,4] into f32[8,5]"));
}

TEST_F(ArraysTest, AssemblyAndItsReverseOnlyRename) {
  const std::vector<ArrayId> parts = {{11}, {12}, {13}, {14}};
  ASSERT_TRUE(session->Disassemble(ArrayId{1}, parts, CopySemantics::kReuseInput, 0).ok());
  EXPECT_TRUE(Ready({11, 14}).ok());
  EXPECT_EQ(*ReadLater(13).get(), "abcd");
  ASSERT_TRUE(
      session->Assemble(ArrayId{20}, TiledSpec({8, 4}, {0, 1, 2, 3}), parts, CopySemantics::kReuseInput, 0).ok());
  EXPECT_TRUE(Ready({20}).ok());
  EXPECT_EQ(Count<TransferArray>(0), 0u);
  // To each worker its own shards only.
  for (int worker : {0, 1}) {
    const BindArrays bind = workers[worker]->All<BindArrays>().back();
    ASSERT_EQ(bind.bindings.size(), 2u);
    for (const BindArrays::Binding& binding : bind.bindings) EXPECT_EQ(binding.device.worker, ids[worker]);
  }
  const std::vector<ArrayId> wrong = {{12}, {11}, {13}, {14}};
  EXPECT_FALSE(
      session->Assemble(ArrayId{21}, TiledSpec({8, 4}, {0, 1, 2, 3}), wrong, CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(Message(Ready({21})), HasSubstr("on another device"));
  EXPECT_FALSE(session->Disassemble(ArrayId{1}, {parts.data(), 2}, CopySemantics::kReuseInput, 0).ok());
  EXPECT_TRUE(Ready({11}).ok());  // the older binding stays
}

TEST_F(ArraysTest, TheFirstShardOfAReplicatedArray) {
  ASSERT_TRUE(Put(2, ReplicatedSpec({4}, {3, 0})).ok());
  ASSERT_TRUE(session->FullyReplicatedShard(ArrayId{2}, ArrayId{3}, CopySemantics::kReuseInput, 0).ok());
  EXPECT_TRUE(Ready({3}).ok());
  EXPECT_EQ(workers[1]->All<BindArrays>().back().bindings[0].device, (PhysicalDevice{ids[1], 1}));
  EXPECT_FALSE(session->FullyReplicatedShard(ArrayId{1}, ArrayId{4}, CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(Message(Ready({4})), HasSubstr("isn't fully replicated"));
}

TEST_F(ArraysTest, RemapsRegroupShards) {
  const std::vector<ArrayId> in = {{1}}, out = {{2}, {3}};
  const std::vector<ArraySpec> inputs = {TiledSpec({8, 4}, {0, 1, 2, 3})};
  const std::vector<ArraySpec> outputs = {TiledSpec({4, 4}, {0, 1}), TiledSpec({4, 4}, {2, 3})};
  std::vector<ShardMapping> mappings = {{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 2, 0}, {0, 1, 3, 1}};
  ASSERT_TRUE(session->Remap(in, inputs, out, outputs, mappings, CopySemantics::kDonateInput, 0).ok());
  EXPECT_TRUE(Ready({2, 3}).ok());
  EXPECT_TRUE(*session->IsDeleted(ArrayId{1}));
  ASSERT_TRUE(Put(5, inputs[0]).ok());
  const std::vector<ArrayId> again = {{5}}, other = {{6}, {7}};
  mappings[3].from_shard = 2;
  EXPECT_FALSE(session->Remap(again, inputs, other, outputs, mappings, CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(Message(Ready({7})), HasSubstr("on another device"));
  mappings.pop_back();
  const std::vector<ArrayId> third = {{8}, {9}};
  EXPECT_FALSE(session->Remap(again, inputs, third, outputs, mappings, CopySemantics::kReuseInput, 0).ok());
  EXPECT_THAT(Message(Ready({8})), HasSubstr("unfilled"));
}

TEST_F(ArraysTest, BitcastsKeepTheBytes) {
  ASSERT_TRUE(Put(2, TiledSpec({1}, {0})).ok());
  ArraySpec as_int = TiledSpec({1}, {0});
  as_int.shape.dtype = DType::kS32;
  ArraySpec as_bytes = TiledSpec({4}, {0});
  as_bytes.shape.dtype = DType::kU8;
  const std::vector<ArrayId> in = {{2}, {2}}, out = {{3}, {4}};
  const std::vector<ArraySpec> outputs = {as_int, as_bytes};
  ASSERT_TRUE(session->Bitcast(in, out, outputs, CopySemantics::kReuseInput, 0).ok());
  workers[0]->Await<StreamChunk>(4 + 2 + 4);  // those of the puts first
  Settle();
  const std::vector<PutArray> puts = workers[0]->All<PutArray>();
  EXPECT_EQ(puts.back().shard_shape, (Shape{DType::kU8, {4}}));
  const std::vector<StreamChunk> chunks = workers[0]->All<StreamChunk>();
  std::string bytes;
  for (const StreamChunk& chunk : chunks) {
    if (chunk.stream == puts.back().stream && chunk.data != nullptr) bytes += *chunk.data;
    if (chunk.stream == puts.back().stream && chunk.last) {
      EXPECT_TRUE(chunk.error.ok()) << chunk.error.ToString();
    }
  }
  EXPECT_EQ(bytes, "abcd");
  ArraySpec too_long = TiledSpec({2}, {0});
  const ArrayId source{2}, result{5};
  EXPECT_FALSE(session->Bitcast({&source, 1}, {&result, 1}, {&too_long, 1}, CopySemantics::kReuseInput, 0).ok());
}

TEST(HostBufferBytesTest, StridesThatTakeNoStepMayBeAnything) {
  for (int64_t wild : {int64_t{-8}, int64_t{0}, INT64_MAX, INT64_MIN}) {
    const auto bytes = HostBufferBytes(Shape{DType::kS32, {1, 4}}, {{wild, 8}});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, 28);
  }
  EXPECT_FALSE(HostBufferBytes(Shape{DType::kS32, {2, 4}}, {{-8, 8}}).ok());
}

}  // namespace
}  // namespace switchtower
