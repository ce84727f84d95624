#include "worker/exec/peer_status.h"

#include <random>

#include <gtest/gtest.h>

#include "absl/strings/cord.h"

namespace switchtower {
namespace {

TEST(PeerStatus, KeepsCodeMessageAndPayloads) {
  absl::Status status = absl::ResourceExhaustedError(std::string("no\0 memory", 10));
  status.SetPayload("a", absl::Cord("1"));
  status.SetPayload("b", absl::Cord(""));
  EXPECT_EQ(DecodePeerStatus(EncodePeerStatus(status)), status);
}

TEST(PeerStatus, AnyBytesAreSomeError) {
  absl::Status status = absl::InternalError("x");
  status.SetPayload("type", absl::Cord("value"));
  const std::string good = EncodePeerStatus(status);
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodePeerStatus(good.substr(0, length)).ok());
  }
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    EXPECT_FALSE(DecodePeerStatus(bad).ok());
  }
}

}  // namespace
}  // namespace switchtower
