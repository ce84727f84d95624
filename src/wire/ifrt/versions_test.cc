#include "wire/ifrt/versions.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(VersionsTest, KnownClients) {
  EXPECT_EQ(*NegotiateVersion({16, 0}, {25, 3}), (ProxyVersion{25, 3}));  // jaxlib 0.10.2
  EXPECT_EQ(*NegotiateVersion({16, 2}, {25, 6}), (ProxyVersion{25, 3}));  // jaxlib 0.12
  EXPECT_EQ(*NegotiateVersion({20, 3}, {31, 9}), (ProxyVersion{25, 3}));
  EXPECT_EQ(*NegotiateVersion({5, 0}, {16, 3}), (ProxyVersion{16, 3}));
  EXPECT_EQ(*NegotiateVersion({16, 0}, {25, 3}, 18), (ProxyVersion{18, 3}));
  EXPECT_FALSE(NegotiateVersion({19, 0}, {25, 3}, 18).ok());
}

TEST(VersionsTest, NothingInCommon) {
  const auto old_protocol = NegotiateVersion({3, 0}, {15, 3});
  EXPECT_EQ(old_protocol.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(old_protocol.status().message(),
            "no common IFRT proxy protocol: the client offers 3 to 15, this server speaks 16 to 25");
  EXPECT_FALSE(NegotiateVersion({26, 0}, {30, 3}).ok());
  EXPECT_FALSE(NegotiateVersion({16, 0}, {25, 2}).ok());
  EXPECT_FALSE(NegotiateVersion({16, 4}, {25, 6}).ok());
}

TEST(VersionsTest, ASessionsVersionMustBeOneThatWeAnswer) {
  for (int protocol = 16; protocol <= 25; ++protocol) EXPECT_TRUE(CheckVersion({protocol, 3}).ok());
  EXPECT_FALSE(CheckVersion({15, 3}).ok());
  EXPECT_FALSE(CheckVersion({26, 3}).ok());
  EXPECT_FALSE(CheckVersion({25, 2}).ok());
  EXPECT_FALSE(CheckVersion({0, 0}).ok());
}

}  // namespace
}  // namespace switchtower
