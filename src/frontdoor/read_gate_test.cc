#include "frontdoor/read_gate.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(ReadGateTest, BoundsRequests) {
  ReadGate gate({.requests = 2, .bytes = 1000});
  EXPECT_TRUE(gate.OnRead(1));
  EXPECT_FALSE(gate.OnRead(1));  // two are waiting
  EXPECT_TRUE(gate.OnHandled(1));
  EXPECT_FALSE(gate.OnHandled(1));  // a read is under way already
}

TEST(ReadGateTest, BoundsBytes) {
  ReadGate gate({.requests = 100, .bytes = 10});
  EXPECT_FALSE(gate.OnRead(50));
  EXPECT_TRUE(gate.OnHandled(50));
  EXPECT_TRUE(gate.OnRead(9));
  EXPECT_FALSE(gate.OnRead(1));
  EXPECT_TRUE(gate.OnHandled(9));
}

TEST(ReadGateTest, HoldsUntilReleased) {
  using enum ReadGate::Hold;
  ReadGate gate({.requests = 10, .bytes = 1000});
  EXPECT_TRUE(gate.OnRead(1));
  EXPECT_TRUE(gate.Place(kLaunches));
  EXPECT_FALSE(gate.Place(kLaunches));
  EXPECT_FALSE(gate.OnRead(1));
  EXPECT_FALSE(gate.OnHandled(1));
  EXPECT_FALSE(gate.OnHandled(1));
  EXPECT_TRUE(gate.OnRelease(kLaunches));
  EXPECT_FALSE(gate.OnRelease(kLaunches));
  EXPECT_TRUE(gate.Place(kLaunches));
}

TEST(ReadGateTest, EachHoldIsReleasedByItself) {
  using enum ReadGate::Hold;
  ReadGate gate({.requests = 10, .bytes = 1000});
  EXPECT_TRUE(gate.Place(kLaunches));
  EXPECT_TRUE(gate.Place(kUploads));
  EXPECT_FALSE(gate.OnRead(1));
  EXPECT_FALSE(gate.OnRelease(kLaunches));
  EXPECT_TRUE(gate.OnRelease(kUploads));
  EXPECT_TRUE(gate.Place(kLaunches));
  EXPECT_TRUE(gate.Place(kUploads));
  EXPECT_FALSE(gate.OnRead(1));
  EXPECT_TRUE(gate.OnReleaseAll());
}

}  // namespace
}  // namespace switchtower
