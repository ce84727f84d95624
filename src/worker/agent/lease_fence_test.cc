#include "worker/agent/lease_fence.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using Kind = LeaseFence::Decision::Kind;

ControllerHello Hello(std::string secret, uint64_t epoch) {
  return {kWorkerProtocolVersion, "cluster", WorkerId{5}, std::move(secret), epoch, "proxy"};
}

class LeaseFenceTest : public testing::Test {
 protected:
  LeaseFenceTest() {
    fence_.SetIdentity({5}, "cluster");
    fence_.SetAllowedLeases({{"a", 3}, {"b", 4}});
  }
  LeaseFence fence_;
};

TEST_F(LeaseFenceTest, AdmitsWhoHoldsALease) {
  EXPECT_EQ(fence_.Judge(Hello("a", 3)).kind, Kind::kAdmit);
  EXPECT_EQ(fence_.Judge(Hello("b", 4)).kind, Kind::kAdmit);
}

TEST_F(LeaseFenceTest, UnknownSecretsAndEpochsWait) {
  EXPECT_EQ(fence_.Judge(Hello("c", 3)).kind, Kind::kWait);
  EXPECT_EQ(fence_.Judge(Hello("a", 4)).kind, Kind::kWait);
  EXPECT_EQ(fence_.Judge(Hello("", 9)).why.code(), absl::StatusCode::kUnauthenticated);
  fence_.SetAllowedLeases({{"c", 9}});
  EXPECT_EQ(fence_.Judge(Hello("c", 9)).kind, Kind::kAdmit);
}

TEST_F(LeaseFenceTest, AnOlderEpochIsNeverAdmittedAgain) {
  fence_.Admitted(Hello("b", 4));
  EXPECT_EQ(fence_.Judge(Hello("a", 3)).kind, Kind::kRefuse);
  EXPECT_EQ(fence_.Judge(Hello("b", 4)).kind, Kind::kAdmit);
  EXPECT_TRUE(fence_.StillAllowed(Hello("b", 4)));
  fence_.SetAllowedLeases({{"a", 3}});
  EXPECT_FALSE(fence_.StillAllowed(Hello("b", 4)));
  EXPECT_EQ(fence_.Judge(Hello("a", 3)).kind, Kind::kRefuse);
}

TEST_F(LeaseFenceTest, OthersAreRefused) {
  ControllerHello hello = Hello("a", 3);
  hello.cluster_id = "other";
  EXPECT_EQ(fence_.Judge(hello).kind, Kind::kRefuse);
  hello = Hello("a", 3);
  hello.worker = {6};
  EXPECT_EQ(fence_.Judge(hello).kind, Kind::kRefuse);
  hello = Hello("a", 3);
  hello.protocol_version = 99;
  EXPECT_EQ(fence_.Judge(hello).kind, Kind::kRefuse);
  EXPECT_EQ(LeaseFence().Judge(Hello("a", 3)).kind, Kind::kWait);
}

}  // namespace
}  // namespace switchtower
