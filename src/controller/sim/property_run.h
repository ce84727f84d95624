// How many seeds a property test runs, and which: SWITCHTOWER_SEEDS="FIRST:COUNT", or a portion that takes a few
// seconds.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace switchtower {

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 0;
};

inline SeedRange SeedsOr(uint64_t default_count) {
  SeedRange range{1, default_count};
  const char* text = std::getenv("SWITCHTOWER_SEEDS");
  if (text == nullptr || *text == 0) return range;
  const std::string words = text;
  const size_t colon = words.find(':');
  range.first = std::strtoull(words.c_str(), nullptr, 10);
  range.count = colon == std::string::npos ? 1 : std::strtoull(words.c_str() + colon + 1, nullptr, 10);
  return range;
}

}  // namespace switchtower
