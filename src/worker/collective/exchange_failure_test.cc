#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/fault_point.h"
#include "worker/collective/message_header.h"
#include "worker/collective/testing_cluster.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const LaunchId kLaunch{1, 5};
const std::vector<std::vector<int64_t>> kAll = {{0, 1, 2, 3}};

CollectiveShape SumOf(int64_t elements) {
  CollectiveShape shape;
  shape.kind = CollectiveKind::kAllReduce;
  shape.operands = shape.results = {{DType::kF32, elements}};
  return shape;
}

void FillOnes(int, int, std::vector<char>& bytes) {
  const float one = 1;
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) std::memcpy(bytes.data() + i, &one, 4);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Until `condition` holds; for what other threads do.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 20000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(ExchangeFailureTest, CancelEndsWaitingMembersAndLaterOnes) {
  TestCluster cluster({0, 0, 1, 1});
  cluster.Begin(kLaunch);
  TestCollective collective{SumOf(4), kAll, kLaunch};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  JoinRank(cluster, collective, run, 2);
  EXPECT_TRUE(run.ranks[0]->outcome.pending());
  for (auto& process : cluster.processes()) process.engine->CancelLaunch(kLaunch, absl::AbortedError("rank 3 broke"));
  for (auto& process : cluster.processes()) process.engine->CancelLaunch(kLaunch, absl::InternalError("later"));
  JoinRank(cluster, collective, run, 1);
  for (int rank : {0, 1, 2}) EXPECT_EQ(run.ranks[rank]->outcome.Wait(), absl::AbortedError("rank 3 broke"));
  // Another launch isn't harmed, and the same op id there is another collective.
  const LaunchId next{1, 6};
  cluster.Begin(next);
  TestCollective again{SumOf(4), kAll, next};
  TestRun fresh = MakeRun(cluster, again.shape, FillOnes);
  for (int rank = 0; rank < 4; ++rank) JoinRank(cluster, again, fresh, rank);
  for (auto& rank : fresh.ranks) EXPECT_TRUE(rank->outcome.Wait().ok());
  cluster.End(kLaunch);
  cluster.End(next);
}

TEST(ExchangeFailureTest, LostPeerIsDataLossAndNamed) {
  TestCluster cluster({0, 0, 1, 1});
  cluster.Begin(kLaunch);
  TestCollective collective{SumOf(4), kAll, kLaunch, 9};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  JoinRank(cluster, collective, run, 1);
  cluster.network().Kill(cluster.of(2).worker);
  for (int rank : {0, 1}) {
    const absl::Status status = run.ranks[rank]->outcome.Wait();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(Message(status), HasSubstr("worker 101"));
    EXPECT_THAT(Message(status), HasSubstr("all-reduce 9 of launch 1.5"));
  }
}

TEST(ExchangeFailureTest, LargePayloadsOnTheirWayToALostPeer) {
  TestCluster cluster({0, 0, 1, 1});
  cluster.Begin(kLaunch);
  TestCollective collective{SumOf(1 << 20), kAll, kLaunch};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  cluster.network().Kill(cluster.of(2).worker);
  JoinRank(cluster, collective, run, 0);
  JoinRank(cluster, collective, run, 1);
  for (int rank : {0, 1}) EXPECT_TRUE(absl::IsDataLoss(run.ranks[rank]->outcome.Wait()));
}

TEST(ExchangeFailureTest, ReceiverOfAPeerLostBefore) {
  TestCluster cluster({0, 1});
  cluster.Begin(kLaunch);
  CollectiveShape shape;
  shape.kind = CollectiveKind::kPermute;
  shape.operands = shape.results = {{DType::kF32, 1}};
  shape.source_of = {1, -1};  // rank 0 only receives, so no send of it can fail
  TestCollective collective{shape, {{0, 1}}, kLaunch};
  // Make the connection first: a peer never met isn't lost.
  TestCollective first{shape, {{0, 1}}, kLaunch, 2};
  TestRun warm = MakeRun(cluster, shape, FillOnes);
  for (int rank : {0, 1}) JoinRank(cluster, first, warm, rank);
  for (auto& rank : warm.ranks) ASSERT_TRUE(rank->outcome.Wait().ok());
  cluster.network().Kill(cluster.of(1).worker);
  TestRun run = MakeRun(cluster, shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  EXPECT_TRUE(absl::IsDataLoss(run.ranks[0]->outcome.Wait()));
}

// Its connection broke while both workers lived on: without this the two could never work together again. What was on
// its way is lost, though, to launches that run.
TEST(ExchangeFailureTest, APeerThatIsNamedAgainIsLostToOlderLaunchesAlone) {
  TestCluster cluster({0, 1});
  const LaunchId before{1, 4}, next{1, 6};
  const auto outcomes = [&](LaunchId launch) {
    TestCollective collective{SumOf(4), {{0, 1}}, launch};
    TestRun run = MakeRun(cluster, collective.shape, FillOnes);
    for (int rank : {0, 1}) JoinRank(cluster, collective, run, rank);
    std::vector<absl::StatusCode> codes;
    for (auto& rank : run.ranks) codes.push_back(rank->outcome.Wait().code());
    return codes;
  };
  const auto each = [&](const auto& call) {
    for (const int at : {0, 1}) call(*cluster.of(at).engine, cluster.of(1 - at).worker);
  };
  using Codes = std::vector<absl::StatusCode>;
  cluster.Begin(before);
  cluster.Begin(kLaunch);
  each([](ExchangeEngine& engine, WorkerId peer) { engine.OnPeerLost(peer, absl::UnavailableError("no answer")); });
  EXPECT_EQ(outcomes(before), Codes(2, absl::StatusCode::kDataLoss));
  each([](ExchangeEngine& engine, WorkerId peer) { engine.ForgetLost(peer); });
  cluster.Begin(next);
  EXPECT_EQ(outcomes(kLaunch), Codes(2, absl::StatusCode::kDataLoss));
  EXPECT_EQ(outcomes(next), Codes(2, absl::StatusCode::kOk));
  for (const LaunchId launch : {before, kLaunch, next}) cluster.End(launch);
}

TEST(ExchangeFailureTest, MessagesBeforeTheLaunchAreKept) {
  TestCluster cluster({0, 0, 1, 1});
  TestCluster::Process& ahead = cluster.of(0);
  ahead.engine->LaunchBegins(kLaunch, ahead.gang);
  TestCollective collective{SumOf(3), kAll, kLaunch};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  JoinRank(cluster, collective, run, 1);
  TestCluster::Process& behind = cluster.of(2);
  ASSERT_TRUE(Eventually([&] { return !behind.engine->Pending().empty(); }));
  EXPECT_THAT(behind.engine->Pending()[0].ranks_here, IsEmpty());
  behind.engine->LaunchBegins(kLaunch, behind.gang);
  JoinRank(cluster, collective, run, 2);
  JoinRank(cluster, collective, run, 3);
  for (auto& rank : run.ranks) {
    ASSERT_TRUE(rank->outcome.Wait().ok());
    float value;
    std::memcpy(&value, rank->results[0].data(), 4);
    EXPECT_EQ(value, 4);
  }
}

TEST(ExchangeFailureTest, AFaultPointHoldsARankBackUntilItsLaunchIsCancelled) {
  ASSERT_TRUE(FaultPoint::Arm("collective.join:rank=1,after=1").ok());
  TestCluster cluster({0, 0, 1});
  cluster.Begin(kLaunch);
  TestCollective first{SumOf(1), {{0, 1, 2}}, kLaunch, 1};
  TestRun good = MakeRun(cluster, first.shape, FillOnes);
  for (int rank : {0, 1, 2}) JoinRank(cluster, first, good, rank);
  for (auto& rank : good.ranks) EXPECT_TRUE(rank->outcome.Wait().ok());
  TestCollective second{SumOf(1), {{0, 1, 2}}, kLaunch, 2};
  TestRun bad = MakeRun(cluster, second.shape, FillOnes);
  for (int rank : {0, 1, 2}) JoinRank(cluster, second, bad, rank);
  const auto pending = cluster.of(0).engine->Pending();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].op_id, 2u);
  EXPECT_THAT(pending[0].ranks_missing, testing::Contains(1));
  EXPECT_TRUE(bad.ranks[1]->outcome.pending());
  for (auto& process : cluster.processes()) process.engine->CancelLaunch(kLaunch, absl::CancelledError("enough"));
  for (auto& rank : bad.ranks) EXPECT_EQ(rank->outcome.Wait(), absl::CancelledError("enough"));
  FaultPoint::DisarmAll();
}

TEST(ExchangeFailureTest, StaleMessagesAreDropped) {
  TestCluster cluster({0, 1});
  TestCluster::Process& sender = cluster.of(0);
  TestCluster::Process& receiver = cluster.of(1);
  sender.engine->LaunchBegins(kLaunch, sender.gang);
  receiver.engine->LaunchBegins({1, 9}, receiver.gang);  // newer: 1.5 won't come here any more
  TestCollective collective{SumOf(3), {{0, 1}}, kLaunch};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  EXPECT_TRUE(Eventually([&] { return receiver.engine->stale_messages() == 1; }));
  EXPECT_THAT(receiver.engine->Pending(), IsEmpty());
  sender.engine->LaunchEnded(kLaunch);
  EXPECT_TRUE(absl::IsCancelled(run.ranks[0]->outcome.Wait()));
}

TEST(ExchangeFailureTest, EarlyMessagesAreBounded) {
  TestCluster cluster({0, 1}, {.threads = 2, .early_bytes_max = 10000});
  CollectiveShape shape;
  shape.kind = CollectiveKind::kPermute;  // the sender need not wait, so it can
                                          // run ahead
  shape.operands = shape.results = {{DType::kF32, 512}};
  shape.source_of = {-1, 0};
  cluster.Begin(kLaunch);
  std::vector<TestRun> runs;
  for (uint32_t iteration = 0; iteration < 8; ++iteration) {
    TestCollective collective{shape, {{0, 1}}, kLaunch, 1, iteration};
    runs.push_back(MakeRun(cluster, shape, FillOnes));
    JoinRank(cluster, collective, runs.back(), 0);
    ASSERT_TRUE(runs.back().ranks[0]->outcome.Wait().ok());
  }
  ASSERT_TRUE(Eventually([&] { return cluster.of(1).engine->stale_messages() > 0; }));
  TestCollective collective{shape, {{0, 1}}, kLaunch, 1, 0};
  JoinRank(cluster, collective, runs[0], 1);
  EXPECT_TRUE(absl::IsResourceExhausted(runs[0].ranks[1]->outcome.Wait()));
}

TEST(ExchangeFailureTest, RanksThatDisagree) {
  for (const std::vector<int>& placement : {std::vector<int>{0, 0}, {0, 1}}) {
    TestCluster cluster(placement);
    cluster.Begin(kLaunch);
    TestCollective three{SumOf(3), {{0, 1}}, kLaunch}, four{SumOf(4), {{0, 1}}, kLaunch};
    TestRun first = MakeRun(cluster, three.shape, FillOnes), second = MakeRun(cluster, four.shape, FillOnes);
    JoinRank(cluster, three, first, 0);
    JoinRank(cluster, four, second, 1);
    // Who hears of it first sends nothing any more; the controller's cancel ends the others.
    ASSERT_TRUE(Eventually([&] { return !first.ranks[0]->outcome.pending() || !second.ranks[1]->outcome.pending(); }));
    for (auto& process : cluster.processes())
      process.engine->CancelLaunch(kLaunch, absl::InvalidArgumentError("other"));
    EXPECT_TRUE(absl::IsInvalidArgument(first.ranks[0]->outcome.Wait()));
    EXPECT_TRUE(absl::IsInvalidArgument(second.ranks[1]->outcome.Wait()));
    EXPECT_THAT(Message(first.ranks[0]->outcome.Wait()) + Message(second.ranks[1]->outcome.Wait()),
                HasSubstr("disagree"));
  }
}

TEST(ExchangeFailureTest, BadShapesAndUnknownLaunches) {
  TestCluster cluster({0, 0});
  TestCollective collective{SumOf(3), {{0, 1}}, kLaunch};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(run.ranks[0]->outcome.Wait()));
  cluster.Begin(kLaunch);
  CollectiveShape gather;
  gather.kind = CollectiveKind::kAllGather;
  gather.operands = {{DType::kF32, 4}};
  gather.results = {{DType::kF32, 8}};
  gather.outer = {2};
  gather.chunk_bytes = {16};  // twice what the operand has
  TestRun bad = MakeRun(cluster, gather, FillOnes);
  JoinRank(cluster, {gather, {{0, 1}}, kLaunch}, bad, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(bad.ranks[0]->outcome.Wait()));
  EXPECT_FALSE(cluster.of(0).engine->Plan(cluster.of(0).gang, {0, 2}).ok());
  EXPECT_FALSE(cluster.of(0).engine->Plan(cluster.of(0).gang, {0, 0}).ok());
}

TEST(ExchangeFailureTest, RaggedSizesOutsideTheBuffersEndTheLaunch) {
  for (const std::vector<int>& placement : {std::vector<int>{0, 0}, {0, 1}}) {
    TestCluster cluster(placement);
    cluster.Begin(kLaunch);
    CollectiveShape shape;
    shape.kind = CollectiveKind::kRaggedAllToAll;
    shape.row_bytes = 4;
    shape.operands = {{DType::kF32, 4}, {DType::kF32, 4}, {DType::kS64, 2},
                      {DType::kS64, 2}, {DType::kS64, 2}, {DType::kS64, 2}};
    shape.results = {{DType::kF32, 4}};
    TestCollective collective{shape, {{0, 1}}, kLaunch};
    TestRun run = MakeRun(cluster, shape, [](int rank, int k, std::vector<char>& bytes) {
      if (rank != 0 || k != 4) return;
      const int64_t row = 4;  // one beyond the peer's last; sizes are zero,
                              // but for the next line
      std::memcpy(bytes.data() + 8, &row, 8);
    });
    const int64_t one = 1;
    std::memcpy(run.ranks[0]->operands[3].data() + 8, &one, 8);
    JoinRank(cluster, collective, run, 0);
    JoinRank(cluster, collective, run, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(run.ranks[1]->outcome.Wait()));
  }
}

TEST(ExchangeFailureTest, NonsenseOfAPeerHarmsOnlyItsLaunch) {
  TestCluster cluster({0, 1});
  cluster.Begin(kLaunch);
  ExchangeEngine& engine = *cluster.of(0).engine;
  MessageHeader header;
  header.words.fill(~0ull);
  engine.OnPeerMessage(WorkerId{101}, header, ReceivedBytes("xyz"));
  TestCollective collective{SumOf(3), {{0, 1}}, kLaunch};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 0);
  const CollectiveHeader wrong_size{kLaunch, {1, 0, 0}, CollectiveKind::kAllReduce, 0, collective.shape.Fingerprint()};
  engine.OnPeerMessage(WorkerId{5}, wrong_size.Write(),
                       ReceivedBytes("x"));  // a stranger: dropped
  EXPECT_TRUE(run.ranks[0]->outcome.pending());
  engine.OnPeerMessage(WorkerId{101}, wrong_size.Write(), ReceivedBytes("x"));
  EXPECT_TRUE(absl::IsDataLoss(run.ranks[0]->outcome.Wait()));
}

TEST(ExchangeFailureTest, PendingTellsWhoIsMissing) {
  TestCluster cluster({0, 0, 1, 1});
  cluster.Begin(kLaunch);
  TestCollective collective{SumOf(3), kAll, kLaunch, 12, 3};
  TestRun run = MakeRun(cluster, collective.shape, FillOnes);
  JoinRank(cluster, collective, run, 1);
  const auto pending = cluster.of(0).engine->Pending();
  ASSERT_THAT(pending, SizeIs(1));
  EXPECT_EQ(pending[0].launch, kLaunch);
  EXPECT_EQ(pending[0].op_id, 12);
  EXPECT_EQ(pending[0].iteration, 3);
  EXPECT_EQ(pending[0].kind, "all-reduce");
  EXPECT_THAT(pending[0].ranks_here, ElementsAre(1));
  EXPECT_THAT(pending[0].ranks_missing, ElementsAre(0, 2, 3));
  cluster.of(0).engine->Stop();
  EXPECT_TRUE(absl::IsCancelled(run.ranks[1]->outcome.Wait()));
}

}  // namespace
}  // namespace switchtower
