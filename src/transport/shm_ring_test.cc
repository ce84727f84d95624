#include "transport/shm_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

using transport_wire::RingPlace;

struct Ring {
  std::unique_ptr<RingWriter> writer;
  std::unique_ptr<RingReader> reader;
};

Ring NewRing(size_t bytes) {
  Ring ring;
  ring.writer = RingWriter::Create(bytes).value();
  ring.reader = RingReader::Open(ring.writer->TakeFd()).value();
  return ring;
}

TEST(ShmRing, CarriesPiecesOfAllSizesRoundAndRound) {
  Ring ring = NewRing(8192);
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    const std::string text(1 + random() % 2048, static_cast<char>('a' + i % 26));
    auto room = ring.writer->ReserveWhole(text.size());
    ASSERT_TRUE(room.has_value());
    EXPECT_EQ(room->position % 64, 0u);
    std::memcpy(room->memory, text.data(), text.size());
    ring.writer->Commit(*room, text.size());
    const RingPlace place{room->position, text.size()};
    auto bytes = ring.reader->At(place);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, text);
    EXPECT_FALSE(ring.reader->Release(place));
  }
}

TEST(ShmRing, AFullRingAsksTheReaderToTell) {
  Ring ring = NewRing(4096);
  auto all = ring.writer->ReserveSome(10'000);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->bytes, 4096u);
  ring.writer->Commit(*all, all->bytes);
  EXPECT_FALSE(ring.writer->ReserveSome(1).has_value());
  EXPECT_TRUE(ring.reader->Release({all->position, all->bytes}));
  EXPECT_TRUE(ring.writer->ReserveSome(1).has_value());
}

TEST(ShmRing, TheReaderBelievesNoPlaceOutsideOfTheRing) {
  Ring ring = NewRing(4096);
  for (const RingPlace place : {RingPlace{0, 4097}, RingPlace{4096, 1}, RingPlace{4000, 97}, RingPlace{~0ull, 1},
                                RingPlace{0, ~0ull}, RingPlace{1ull << 63, 8}, RingPlace{8, 8}}) {
    EXPECT_FALSE(ring.reader->At(place).ok()) << place.position << " " << place.length;
  }
  ASSERT_TRUE(ring.reader->At({0, 100}).ok());
  ring.reader->Release({0, 100});
  EXPECT_FALSE(ring.reader->At({0, 100}).ok()) << "what was released is gone";
}

TEST(ShmRing, TheReaderRefusesFilesThatCouldShrink) {
  UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_FALSE(RingReader::Open(std::move(unsealed)).ok());
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  UniqueFd reader(pipe_fds[0]), writer(pipe_fds[1]);
  EXPECT_FALSE(RingReader::Open(std::move(reader)).ok());
}

}  // namespace
}  // namespace switchtower
