// Element types. The numbers are those of IFRT's DType; for most types, not for all, XLA's PrimitiveType has the same
// (hlo/element_type.h converts).
#pragma once

#include <cstdint>
#include <string_view>

namespace switchtower {

enum class DType : int32_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kOpaque = 14,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kF4E2M1FN = 30,
  kF8E8M0FNU = 31,
  kS1 = 32,
  kU1 = 33,
  // IFRT only: never inside a program.
  kString = 99,
};

// True for every enumerator but kInvalid.
bool IsKnown(DType dtype);
// Bytes of one element in a host buffer. Sub-byte types take a whole byte there. 0 for token, opaque and string.
int64_t HostBytes(DType dtype);
// Bits of one element inside an array. 0 for token, opaque and string.
int BitWidth(DType dtype);
// "f32", "s4", "pred": the spelling of XLA's HLO text.
std::string_view Name(DType dtype);

}  // namespace switchtower
