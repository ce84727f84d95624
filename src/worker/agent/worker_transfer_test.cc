// Transfers between devices and workers.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/agent/testing_worker.h"
#include "worker/exec/outbound_transfer.h"
#include "worker/exec/transfer_table.h"

namespace switchtower {
namespace {

using Floats = std::vector<float>;

class WorkerTransferTest : public testing::Test {
 protected:
  WorkerTransferTest() {
    cluster_.DefineGang(1, {a0_});
    cluster_.Load("add_one", 1, 1);
    cluster_.Load("fail", 1, 1);
  }
  // array `from` (on a0, `size` floats) whole to `devices`.
  TransferArray Whole(uint64_t number, uint64_t from, uint64_t to, int64_t size, std::vector<PhysicalDevice> devices) {
    TransferArray transfer = Base(number, from, to);
    for (const PhysicalDevice& device : devices) {
      transfer.destinations.push_back({device, Shape{DType::kF32, {size}}});
      transfer.pieces.push_back({a0_, device, Box{{0}, {size}}, Box{{0}, {size}}});
    }
    return transfer;
  }
  TransferArray Base(uint64_t number, uint64_t from, uint64_t to) {
    TransferArray transfer;
    transfer.id = TestCluster::Id(number);
    transfer.session = TestCluster::kSession;
    transfer.from = {from};
    transfer.to = {to};
    transfer.layout = Layout::Default(1);
    return transfer;
  }

  // A piece from node 0 to b0, of a transfer that node 1 doesn't know yet.
  void SendEarly(uint64_t number, std::string bytes) {
    cluster_.node(0).fabric->Send(b0_.worker, TransferMessage{TestCluster::Id(number), 0, 0, false}.ToHeader(),
                                  Payload(std::move(bytes)), nullptr);
  }
  // Nothing of it comes early.
  void SendReceiverFirst(const TransferArray& transfer) {
    cluster_.controller(1).Send(transfer);
    cluster_.Settle(1);
    cluster_.controller(0).Send(transfer);
  }

  TestCluster cluster_{2};
  const PhysicalDevice a0_ = cluster_.Device(0, 0), a1_ = cluster_.Device(0, 1);
  const PhysicalDevice b0_ = cluster_.Device(1, 0), b1_ = cluster_.Device(1, 1);
};

TEST_F(WorkerTransferTest, WholeShardsToEveryKindOfPlace) {
  cluster_.Put(1, {a0_}, {1, 2, 3});
  TransferArray transfer = Whole(1, 1, 2, 3, {a0_, a1_, b0_, b1_});
  transfer.memory_kind = "pinned_host";
  cluster_.SendAll(transfer);
  for (const PhysicalDevice& device : {a0_, a1_, b0_, b1_}) {
    EXPECT_EQ(*cluster_.ReadFloats(2, device), (Floats{1, 2, 3}));
  }
  EXPECT_EQ(*cluster_.ReadFloats(1, a0_), (Floats{1, 2, 3}));
}

TEST_F(WorkerTransferTest, PiecesFromTwoWorkersMakeOneShard) {
  cluster_.Put(1, {a0_, b0_}, {5, 6, 7, 8});
  TransferArray transfer = Base(1, 1, 2);
  transfer.destinations = {{b1_, Shape{DType::kF32, {5}}}, {a1_, Shape{DType::kF32, {5}}}};
  for (const PhysicalDevice& to : {b1_, a1_}) {
    transfer.pieces.push_back({a0_, to, Box{{2}, {2}}, Box{{0}, {2}}});
    transfer.pieces.push_back({b0_, to, Box{{0}, {3}}, Box{{2}, {3}}});
  }
  cluster_.SendAll(transfer);
  EXPECT_EQ(*cluster_.ReadFloats(2, b1_), (Floats{7, 8, 5, 6, 7}));
  EXPECT_EQ(*cluster_.ReadFloats(2, a1_), (Floats{7, 8, 5, 6, 7}));
}

TEST_F(WorkerTransferTest, PostedBeforeTheDataAndUsedBeforeItsEnd) {
  cluster_.node(0).engine.Hold();
  cluster_.DefineGang(2, {b0_});
  cluster_.Put(1, {a0_}, {1});
  cluster_.Launch(1, "add_one", 1, {1}, {2});
  cluster_.SendAll(Whole(2, 2, 3, 1, {b0_}));
  cluster_.Launch(3, "add_one", 2, {3}, {4});
  while (cluster_.node(0).engine.executed().empty()) std::this_thread::yield();
  cluster_.node(0).engine.Release();
  EXPECT_EQ(*cluster_.ReadFloats(4, b0_), (Floats{3}));
}

TEST_F(WorkerTransferTest, DataThatComesBeforeItsCommandIsKept) {
  cluster_.Put(1, {a0_}, {1, 2});
  const TransferArray transfer = Whole(1, 1, 2, 2, {b0_});
  cluster_.controller(0).Send(transfer);
  while (cluster_.node(0).fabric->stats().memory.messages_sent == 0) std::this_thread::yield();
  cluster_.controller(1).Send(transfer);
  EXPECT_EQ(*cluster_.ReadFloats(2, b0_), (Floats{1, 2}));
}

TEST_F(WorkerTransferTest, DataThatFoundNoRoomFailsItsTransferOnly) {
  cluster_.Put(1, {a0_}, {1, 2});
  SendEarly(9, std::string(TransferTable::kEarlyBytesMax - 4096, 'x'));
  for (int i = 0; i < 16; ++i) SendEarly(2, std::string(256, 'x'));
  SendReceiverFirst(Whole(1, 1, 2, 2, {b0_}));
  EXPECT_EQ(*cluster_.ReadFloats(2, b0_), (Floats{1, 2}));
  cluster_.SendAll(Whole(2, 1, 3, 2, {b0_}));
  EXPECT_EQ(cluster_.Status(3, b0_).code(), absl::StatusCode::kResourceExhausted);
  SendReceiverFirst(Whole(3, 1, 4, 2, {b0_}));
  EXPECT_EQ(*cluster_.ReadFloats(4, b0_), (Floats{1, 2}));
}

TEST_F(WorkerTransferTest, APeerThatFloodsIsLost) {
  cluster_.Put(1, {a0_}, {1});
  SendEarly(9, std::string(TransferTable::kEarlyBytesMax - 256, 'x'));
  for (int64_t i = 0; i <= TransferTable::kOverflowedMax; ++i) SendEarly(100 + i, "x");
  SendReceiverFirst(Whole(1, 1, 2, 1, {b0_}));  // what is there in full counts, whoever is lost
  EXPECT_EQ(cluster_.Status(2, b0_).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(cluster_.Status(2, b0_).message(), testing::HasSubstr("nobody asked for"));
}

TEST_F(WorkerTransferTest, ASourcesErrorKeepsItsCauseAcrossWorkers) {
  cluster_.Put(1, {a0_}, {1});
  cluster_.Launch(1, "fail", 1, {1}, {2});
  cluster_.SendAll(Whole(2, 2, 3, 1, {a1_, b0_}));
  EXPECT_EQ(cluster_.Status(3, a1_), absl::InternalError("fake program failed"));
  EXPECT_EQ(cluster_.Status(3, b0_), absl::InternalError("fake program failed"));
  EXPECT_FALSE(cluster_.controller(1).AwaitFailure(TestCluster::Id(2))->origin);
}

TEST_F(WorkerTransferTest, NonsenseIsRefused) {
  cluster_.Put(1, {a0_}, {1, 2});
  TransferArray gap = Whole(1, 1, 2, 2, {b0_});
  gap.pieces[0].source_box = gap.pieces[0].destination_box = Box{{0}, {1}};
  cluster_.SendAll(gap);
  EXPECT_EQ(cluster_.Status(2, b0_).code(), absl::StatusCode::kInvalidArgument);
  TransferArray beyond = Whole(2, 1, 3, 2, {b0_});
  beyond.pieces[0].source_box = Box{{1}, {2}};
  cluster_.SendAll(beyond);
  EXPECT_EQ(cluster_.Status(3, b0_).code(), absl::StatusCode::kInvalidArgument);
  cluster_.SendAll(Whole(3, 99, 4, 2, {b0_, a1_}));  // no such array
  EXPECT_EQ(cluster_.Status(4, b0_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cluster_.Status(4, a1_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerTransferTest, ALostPeerFailsWhatItOwes) {
  cluster_.Put(1, {a0_}, {1});
  cluster_.SendAll(Whole(1, 1, 2, 1, {b0_}));
  EXPECT_EQ(*cluster_.ReadFloats(2, b0_), (Floats{1}));
  cluster_.controller(1).Send(Whole(2, 1, 3, 1, {b0_}));  // only the receiver is told
  cluster_.Settle(1);
  cluster_.network().Kill(a0_.worker);
  EXPECT_EQ(cluster_.Status(3, b0_).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(cluster_.controller(1).AwaitFailure(TestCluster::Id(2))->origin);
  cluster_.controller(1).Send(Whole(3, 1, 4, 1, {b0_}));
  EXPECT_EQ(cluster_.Status(4, b0_).code(), absl::StatusCode::kDataLoss);
}

TEST_F(WorkerTransferTest, ACancelledTransferFailsAndLateDataIsDropped) {
  cluster_.Put(1, {a0_}, {1});
  const TransferArray transfer = Whole(1, 1, 2, 1, {b0_});
  cluster_.controller(1).Send(transfer);
  cluster_.controller(1).Send(CancelLaunch{TestCluster::Id(1), absl::DataLossError("slice 0 was lost")});
  EXPECT_EQ(cluster_.Status(2, b0_), absl::DataLossError("slice 0 was lost"));
  cluster_.controller(0).Send(transfer);
  cluster_.SendAll(Whole(2, 1, 3, 1, {b0_}));
  EXPECT_EQ(*cluster_.ReadFloats(3, b0_), (Floats{1}));
  EXPECT_EQ(cluster_.Status(2, b0_), absl::DataLossError("slice 0 was lost"));
}

TEST_F(WorkerTransferTest, StringsAndEmptyShards) {
  PutArray put;
  put.array = TestCluster::Key(1);
  put.devices = {a0_};
  put.shard_shape = Shape{DType::kString, {2}};
  put.layout = Layout::Default(1);
  put.stream = {700};
  put.stream_bytes = 3;
  cluster_.SendAll(put);
  cluster_.SendAll(StreamChunk{{700}, Shared("x y"), true, 1, {}});
  TransferArray transfer = Whole(1, 1, 2, 2, {b0_, a1_});
  for (auto& destination : transfer.destinations) destination.shard_shape.dtype = DType::kString;
  cluster_.SendAll(transfer);
  EXPECT_EQ(*cluster_.controller(1).Read(TestCluster::Key(2), b0_), "x y");
  EXPECT_EQ(*cluster_.controller(0).Read(TestCluster::Key(2), a1_), "x y");

  cluster_.Put(3, {a0_}, {});
  cluster_.SendAll(Whole(2, 3, 4, 0, {b0_}));
  EXPECT_EQ(*cluster_.ReadFloats(4, b0_), Floats{});
  TransferArray nothing = Base(3, 3, 5);
  nothing.destinations = {{b0_, Shape{DType::kF32, {0}}}};
  cluster_.SendAll(nothing);
  EXPECT_EQ(*cluster_.ReadFloats(5, b0_), Floats{});
}

}  // namespace
}  // namespace switchtower
