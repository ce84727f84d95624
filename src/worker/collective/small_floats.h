// f16 and bf16 as bits, converted without branches so that loops over them vectorise on any CPU.
//
// Place:    worker/collective, for reduction.cc alone.
// Threads:  pure functions.
//
// Rounding is to nearest even; a NaN stays a NaN (quiet, sign kept).
#pragma once

#include <bit>
#include <cstdint>

namespace switchtower {

inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = ((bits >> 16) & 0x8000) | 0x7fc0;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// No step has a denormal float as its input or outcome, so the result is the same where the FPU flushes them.
inline float FromHalf(uint16_t half) {
  constexpr uint32_t kRebias = 112u << 23;
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const uint32_t special = magnitude >= (0x7c00u << 13) ? kRebias : 0u;  // infinity, NaN
  const float denormal = std::bit_cast<float>(magnitude + (113u << 23)) - std::bit_cast<float>(113u << 23);
  const uint32_t bits = magnitude < (0x0400u << 13) ? std::bit_cast<uint32_t>(denormal) : magnitude + kRebias + special;
  return std::bit_cast<float>(bits | (static_cast<uint32_t>(half & 0x8000u) << 16));
}

inline uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below the normal range: adding one half in units of the last place makes the FPU round for us.
  constexpr float kDenormalMagic = std::bit_cast<float>(uint32_t{((127 - 15) + (23 - 10) + 1) << 23});
  const uint32_t denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kDenormalMagic) -
                            std::bit_cast<uint32_t>(kDenormalMagic);
  // Within it: move the exponent and round to nearest even; a carry out of the mantissa is just right.
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  uint32_t half = magnitude < (113u << 23) ? denormal : normal;
  half = magnitude >= (143u << 23) ? 0x7c00u : half;  // too large: infinity
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return static_cast<uint16_t>(half | sign);
}

}  // namespace switchtower
