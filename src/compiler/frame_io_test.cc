#include "compiler/frame_io.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

// Gives all of `bytes` that it takes, in pieces of at most `piece`.
absl::Status Feed(FrameReader& reader, std::string_view bytes, size_t piece) {
  while (!bytes.empty() && !reader.complete()) {
    const absl::Span<char> room = reader.Room();
    EXPECT_FALSE(room.empty());
    const size_t size = std::min({piece, room.size(), bytes.size()});
    bytes.copy(room.data(), size);
    bytes.remove_prefix(size);
    if (absl::Status status = reader.Took(size); !status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(FrameReaderTest, PutsPiecesTogether) {
  std::string message(1'000'000, 'x');
  for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<char>(i * 7);
  for (size_t piece : {1, 3, 4096, 10'000'000}) {
    FrameReader reader;
    ASSERT_TRUE(Feed(reader, FrameHeader(message.size()) + message, piece).ok());
    ASSERT_TRUE(reader.complete());
    EXPECT_EQ(std::move(reader).Take(), message);
  }
}

TEST(FrameReaderTest, AnEmptyFrameIsOne) {
  FrameReader reader;
  ASSERT_TRUE(Feed(reader, FrameHeader(0), 8).ok());
  ASSERT_TRUE(reader.complete());
  EXPECT_EQ(std::move(reader).Take(), "");
}

TEST(FrameReaderTest, ALengthThatIsOnlyToldTakesNoMemory) {
  FrameReader reader;
  ASSERT_TRUE(Feed(reader, FrameHeader(kMaxFrameBytes), 8).ok());
  EXPECT_LE(reader.Room().size(), 64u * 1024);
  ASSERT_TRUE(Feed(reader, std::string(100'000, 'x'), 4096).ok());
  EXPECT_FALSE(reader.complete());
  EXPECT_LE(reader.Room().size(), 200'000u);
}

TEST(FrameReaderTest, RefusesALengthAboveAll) {
  FrameReader reader;
  EXPECT_EQ(Feed(reader, FrameHeader(kMaxFrameBytes + 1), 8).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace switchtower
