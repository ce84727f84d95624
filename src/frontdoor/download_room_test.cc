#include "frontdoor/download_room.h"

#include <limits>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

TEST(DownloadRoomTest, IsFullAboveItsBoundUntilEnoughHaveLeft) {
  auto room = std::make_shared<DownloadRoom>(100);
  DownloadRoom::Place one = room->Take(60), other = room->Take(50);
  EXPECT_TRUE(room->full());
  int not_full = 0;
  room->WhenNotFull([&] { ++not_full; });
  const DownloadRoom::Place sends = one;  // somebody who still sends it
  one = nullptr;
  EXPECT_EQ(not_full, 0);
  other = nullptr;
  EXPECT_EQ(not_full, 1);
  EXPECT_FALSE(room->full());
  room->WhenNotFull([&] { ++not_full; });
  EXPECT_EQ(not_full, 2);
}

TEST(DownloadRoomTest, OneIsLetInHoweverLarge) {
  auto room = std::make_shared<DownloadRoom>(100);
  const DownloadRoom::Place one = room->Take(std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(room->full());
  const DownloadRoom::Place other = room->Take(std::numeric_limits<int64_t>::max()), odd = room->Take(-1);
  EXPECT_TRUE(room->full());
}

TEST(DownloadRoomTest, CloseEndsTheWait) {
  auto room = std::make_shared<DownloadRoom>(1);
  const DownloadRoom::Place one = room->Take(1), other = room->Take(1);
  int not_full = 0;
  room->WhenNotFull([&] { ++not_full; });
  room->Close();
  room->WhenNotFull([&] { ++not_full; });
  EXPECT_EQ(not_full, 2);
  room = nullptr;  // places may outlive it
}

}  // namespace
}  // namespace switchtower
