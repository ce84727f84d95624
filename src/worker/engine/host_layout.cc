#include "worker/engine/host_layout.h"

#include <string.h>

#include <algorithm>

namespace switchtower {
namespace {

bool IsSigned(DType dtype) { return dtype == DType::kS1 || dtype == DType::kS2 || dtype == DType::kS4; }

// The low bits of `byte` as a whole byte.
char Extend(DType dtype, int bits, unsigned byte) {
  const unsigned value = byte & ((1u << bits) - 1);
  const bool negative = IsSigned(dtype) && (value >> (bits - 1)) != 0;
  return static_cast<char>(negative ? value | (0xffu << bits) : value);
}

}  // namespace

void CopyElements(const Shape& shape, const char* source, const std::vector<int64_t>& source_strides, char* destination,
                  const std::vector<int64_t>& destination_strides) {
  if (shape.elements() == 0) return;
  const size_t size = static_cast<size_t>(HostBytes(shape.dtype));
  const size_t rank = shape.dims.size();
  std::vector<int64_t> index(rank, 0);
  while (true) {
    memcpy(destination, source, size);
    size_t d = rank;
    while (d > 0) {
      --d;
      if (shape.dims[d] > 1) {  // otherwise there is no step, and the strides may be anything
        source += source_strides[d];
        destination += destination_strides[d];
        if (++index[d] < shape.dims[d]) break;
        source -= source_strides[d] * shape.dims[d];
        destination -= destination_strides[d] * shape.dims[d];
        index[d] = 0;
      }
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

bool IsSubByte(DType dtype) {
  const int bits = BitWidth(dtype);
  return bits > 0 && bits < 8;
}

int64_t PackedBytes(DType dtype, int64_t count) { return (count * BitWidth(dtype) + 7) / 8; }

void UnpackElements(DType dtype, const char* packed, int64_t count, char* bytes) {
  const int bits = BitWidth(dtype);
  const int per_byte = 8 / bits;
  for (int64_t i = 0; i < count; ++i) {
    const unsigned byte = static_cast<unsigned char>(packed[i / per_byte]);
    bytes[i] = Extend(dtype, bits, byte >> (bits * (i % per_byte)));
  }
}

void PackElements(DType dtype, const char* bytes, int64_t count, char* packed) {
  const int bits = BitWidth(dtype);
  const int per_byte = 8 / bits;
  std::fill(packed, packed + PackedBytes(dtype, count), 0);
  for (int64_t i = 0; i < count; ++i) {
    const unsigned value = static_cast<unsigned char>(bytes[i]) & ((1u << bits) - 1);
    packed[i / per_byte] = static_cast<char>(packed[i / per_byte] | (value << (bits * (i % per_byte))));
  }
}

void NormalizeElements(DType dtype, char* bytes, int64_t count) {
  const int bits = BitWidth(dtype);
  for (int64_t i = 0; i < count; ++i) bytes[i] = Extend(dtype, bits, static_cast<unsigned char>(bytes[i]));
}

}  // namespace switchtower
