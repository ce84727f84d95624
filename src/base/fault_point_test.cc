#include "base/fault_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FaultPoint join_fault("test.join", {"rank", "device"});
FaultPoint other_fault("test.other", {});

class FaultPointTest : public testing::Test {
 protected:
  ~FaultPointTest() override { FaultPoint::DisarmAll(); }
  static std::string Refusal(const std::string& specification) {
    return std::string(FaultPoint::Arm(specification).message());
  }
};

TEST_F(FaultPointTest, OffUntilArmed) {
  EXPECT_FALSE(join_fault.Fires({1, 2}));
  ASSERT_TRUE(FaultPoint::Arm("test.join").ok());
  EXPECT_TRUE(join_fault.Fires({1, 2}));
  EXPECT_FALSE(other_fault.Fires({}));
  EXPECT_THAT(FaultPoint::Armed(), ElementsAre("test.join"));
  FaultPoint::DisarmAll();
  EXPECT_FALSE(join_fault.Fires({1, 2}));
  EXPECT_THAT(FaultPoint::Armed(), IsEmpty());
}

TEST_F(FaultPointTest, MatchesItsKeysThenCounts) {
  ASSERT_TRUE(FaultPoint::Arm("test.join:rank=3,after=1,times=2").ok());
  EXPECT_FALSE(join_fault.Fires({2, 0}));
  EXPECT_FALSE(join_fault.Fires({3, 0}));  // the first match passes
  EXPECT_TRUE(join_fault.Fires({3, 0}));
  EXPECT_FALSE(join_fault.Fires({2, 0}));
  EXPECT_TRUE(join_fault.Fires({3, 1}));
  EXPECT_FALSE(join_fault.Fires({3, 0}));  // twice and no more
}

TEST_F(FaultPointTest, RulesOfOnePointAreIndependent) {
  ASSERT_TRUE(FaultPoint::Arm("test.join:rank=1").ok());
  ASSERT_TRUE(FaultPoint::Arm("test.join:device=7").ok());
  EXPECT_TRUE(join_fault.Fires({1, 0}));
  EXPECT_TRUE(join_fault.Fires({0, 7}));
  EXPECT_FALSE(join_fault.Fires({0, 0}));
}

TEST_F(FaultPointTest, RefusesWhatCanNeverFire) {
  EXPECT_THAT(Refusal("test.jion"), HasSubstr("test.join"));
  EXPECT_THAT(Refusal("test.join:rnk=1"), HasSubstr("rank, device, after, times"));
  EXPECT_THAT(Refusal("test.join:rank"), HasSubstr("KEY=NUMBER"));
  EXPECT_THAT(Refusal("test.join:rank=-1"), HasSubstr("KEY=NUMBER"));
  EXPECT_THAT(Refusal("test.join:rank=x"), HasSubstr("KEY=NUMBER"));
  EXPECT_FALSE(join_fault.Fires({1, 2}));
}

}  // namespace
}  // namespace switchtower
