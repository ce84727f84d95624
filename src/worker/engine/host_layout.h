// Copies of dense arrays between layouts, in host memory.
//
// Place:    worker/engine; for the fake engine and for sub-byte elements.
// Threads:  pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "types/shape.h"

namespace switchtower {

// Copies every element from one place to the other; strides are in bytes, in order of the dims, and may be
// negative or zero. Source and destination don't overlap.
void CopyElements(const Shape& shape, const char* source, const std::vector<int64_t>& source_strides, char* destination,
                  const std::vector<int64_t>& destination_strides);

// Sub-byte elements lie several in a byte, the first in the lowest bits. Unpacking gives one byte for each,
// sign-extended for signed integers; packing takes the low bits. `count` elements of `dtype`.
void UnpackElements(DType dtype, const char* packed, int64_t count, char* bytes);
void PackElements(DType dtype, const char* bytes, int64_t count, char* packed);
// Bytes of `count` packed elements.
int64_t PackedBytes(DType dtype, int64_t count);
// Makes the unused high bits of one-byte elements what UnpackElements would give.
void NormalizeElements(DType dtype, char* bytes, int64_t count);
// True for types with several elements in a byte.
bool IsSubByte(DType dtype);

}  // namespace switchtower
