// Private to base/net: the sixteen bytes in front of each body, little-endian.
#pragma once

#include <bit>
#include <cstdint>

namespace switchtower {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

struct FrameHeader {
  // "SWF1": the last digit is the version of the framing.
  static constexpr uint32_t kMagic = 0x31465753;
  uint32_t magic = kMagic;
  uint32_t tagged_type = 0;  // type in 24 bits, number of descriptors in the upper 8
  uint64_t body_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 16);

}  // namespace switchtower
